"""What is in deploy/: manifests by Kubernetes' own schemas, and every command and setting in it."""

import configparser
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs]
import pytest
import yaml

from tests.architecture.test_pages import wrong
from tests.support.project import ROOT
from tools import deploy
from waystation.core.events import Line
from waystation.core.line.forecasts import DesiredWorkers, Forecast
from waystation.core.line.prometheus import recommended

PLACE = ROOT / "deploy"
VERSIONS = ("1.27", "1.31", "1.37")
UNITS = sorted((PLACE / "systemd").glob("*.service"))


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


MANIFESTS = [each for text in deploy.manifests().values() for each in documents(text)]
NATIVE = [each for each in MANIFESTS if not each["apiVersion"].startswith("keda.sh")]


def named(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


def containers() -> Iterator[dict[str, Any]]:
    for manifest in NATIVE:
        if "template" in manifest["spec"]:
            yield from manifest["spec"]["template"]["spec"]["containers"]


def compose() -> dict[str, Any]:
    return yaml.safe_load((PLACE / "compose.yaml").read_text())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", NATIVE, ids=named)
def test_a_manifest_is_what_kubernetes_takes(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_would_be_noticed() -> None:
    bad: dict[str, Any] = {**NATIVE[0], "spek": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(bad, VERSIONS[-1], strict=True)


def test_parts_that_are_switched_off_are_left_out() -> None:
    values = yaml.safe_load((deploy.CHART / "values.yaml").read_text())
    for part in ("store", "room", "console", "exporter", "pipeline"):
        values[part]["enabled"] = False
    values["workers"] *= 2

    shown = [each for text in deploy.rendered(values).values() for each in documents(text)]

    assert [each["kind"] for each in shown] == ["Deployment", "Deployment"]


def test_every_probe_asks_a_port_that_its_container_has() -> None:
    ours = [each for each in containers() if each["image"].startswith("waystation")]
    assert len(ours) >= 5
    for container in ours:
        ports = {port["name"] for port in container.get("ports", ())}
        probes = [container[name] for name in ("livenessProbe", "readinessProbe") if ports]
        paths = [(probe["httpGet"]["path"], probe["httpGet"]["port"] in ports) for probe in probes]
        assert paths == ([("/healthz", True), ("/readyz", True)] if ports else [])


def test_the_scaler_follows_a_metric_that_there_is() -> None:
    [scaler] = [each for each in MANIFESTS if each["kind"] == "ScaledObject"]
    [trigger] = scaler["spec"]["triggers"]
    wanted = DesiredWorkers(made_at=0, until=1, workers=7, target_wait_ms=1000)
    told = "\n".join(recommended(Line.BULLMQ, {"mail": Forecast(workers=wanted)}))

    metric = re.search(r"max\((\w+)\{queue=\"mail\"\}\)", trigger["metadata"]["query"])

    assert metric
    assert f'{metric[1]}{{line="bullmq",queue="mail"}} 7' in told
    targets = {each["metadata"]["name"] for each in NATIVE if each["kind"] == "Deployment"}
    assert scaler["spec"]["scaleTargetRef"]["name"] in targets


def test_every_command_exists() -> None:
    commands = [each["args"] for each in containers() if each["image"].startswith("waystation")]
    commands += [
        service["command"]
        for service in compose()["services"].values()
        if service["image"].startswith("waystation")
    ]
    for unit in UNITS:
        _, _, command = unit_of(unit)["Service"]["ExecStart"].partition("bin/waystation ")
        commands.append(command.split())
    assert len(commands) >= 15
    assert [(words, wrong(words)) for words in commands if wrong(words)] == []


def test_every_setting_exists() -> None:
    known = (ROOT / "docs/reference/settings.md").read_text()
    texts = [file.read_text() for file in PLACE.rglob("*") if file.is_file()]
    named = {name for text in texts for name in re.findall(r"WAYSTATION_\w+__\w+", text)}
    assert len(named) >= 5
    assert [name for name in sorted(named) if f"`{name}`" not in known] == []


def test_the_services_of_compose_hang_together() -> None:
    page = compose()
    assert set(page["services"]) == {"store", "worker", "room", "console", "exporter", "pipeline"}
    for name, service in page["services"].items():
        assert set(service.get("depends_on", {})) <= set(page["services"]), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in page["volumes"] or (PLACE / source).exists(), volume
        if "build" in service:
            assert (PLACE / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def unit_of(file: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=True)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(file.read_text())
    return unit


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_a_unit_waits_for_running_jobs_and_comes_back(file: Path) -> None:
    unit = unit_of(file)
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert int(service["TimeoutStopSec"]) > 30
    assert (service["KillMode"], service["Restart"]) == ("mixed", "always")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


def test_the_image_installs_extras_that_there_are() -> None:
    text = (PLACE / "Dockerfile").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    for extra in re.findall(r"EXTRAS=([a-z,]+)", text):
        for name in extra.split(","):
            assert re.search(rf"^{name} = \[", project, re.MULTILINE), name
    for source in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / each).exists() for each in source.split()), source
