"""What is in deploy/: by the schemas of Kubernetes, the types of Databricks, and our commands."""

import configparser
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs]
import pytest
import yaml
from databricks.bundles.jobs import Job

from tests.architecture.test_pages import wrong
from tests.support.project import ROOT
from tools import deploy
from waystation.core.events import Product
from waystation.core.line.forecasts import DesiredWorkers, Forecast
from waystation.core.line.prometheus import recommended

PLACE = ROOT / "deploy"
VERSIONS = ("1.27", "1.31", "1.37")
UNITS = sorted((PLACE / "systemd").glob("*.service"))


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


MANIFESTS = [each for text in deploy.manifests().values() for each in documents(text)]
SPARK_FILES = sorted((PLACE / "spark").glob("*.yaml"))
SPARK = {file.stem: documents(file.read_text()) for file in SPARK_FILES}
[SETTINGS] = SPARK["settings"]
[EXECUTOR] = documents(SETTINGS["data"]["executor.yaml"])
EXECUTOR["metadata"]["name"] = "executor"  # by Spark, for each one
NATIVE = [
    *(each for each in MANIFESTS if not each["apiVersion"].startswith("keda.sh")),
    *(each for found in SPARK.values() for each in found),
    EXECUTOR,
]
BUNDLE = PLACE / "databricks"


def named(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


def pods() -> Iterator[dict[str, Any]]:
    for manifest in NATIVE:
        if manifest["kind"] == "Pod":
            yield manifest["spec"]
        elif "template" in manifest.get("spec", {}):
            yield manifest["spec"]["template"]["spec"]


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods():
        yield from pod["containers"]


def ours() -> Iterator[dict[str, Any]]:
    """The containers that run a command of ours."""
    yield from (each for each in containers() if each.get("image", "").startswith("waystation"))


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
    served = [each for each in ours() if each["args"][0] != "pipeline"]
    assert len(served) >= 4
    for container in served:
        ports = {port["name"] for port in container["ports"]}
        probes = [container[name] for name in ("livenessProbe", "readinessProbe")]
        paths = [(probe["httpGet"]["path"], probe["httpGet"]["port"] in ports) for probe in probes]
        assert paths == [("/healthz", True), ("/readyz", True)]


def test_no_process_may_do_more_than_it_needs() -> None:
    for pod in pods():
        assert pod["enableServiceLinks"] is False
        rights = pod["securityContext"]
        assert (rights["runAsNonRoot"], rights["seccompProfile"]) == (
            True,
            {"type": "RuntimeDefault"},
        )
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_every_container_says_how_much_memory_it_may_take() -> None:
    # What an executor may take is counted by Spark, from spark.executor.memory.
    for container in (each for each in containers() if each["name"] != "executor"):
        resources = container["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"]
        assert "cpu" in resources["requests"]


def test_every_process_takes_the_url_of_the_store_from_a_secret() -> None:
    [secret] = [each for each in MANIFESTS if each["kind"] == "Secret"]
    assert secret["stringData"] == {"url": "redis://waystation-store:6379"}
    for container in ours():
        [url] = [each for each in container["env"] if each["name"] == "WAYSTATION_STORE__URL"]
        source = url["valueFrom"]["secretKeyRef"]
        assert source == {"name": secret["metadata"]["name"], "key": "url"}


def test_the_secret_holds_the_url_that_the_values_name() -> None:
    values = yaml.safe_load((deploy.CHART / "values.yaml").read_text())
    values["store"] |= {"enabled": False, "url": "rediss://:secret@example.org:6380"}
    [secret] = documents(deploy.rendered(values)["store-url.yaml"])
    assert secret["stringData"] == {"url": "rediss://:secret@example.org:6380"}

    values["store"]["enabled"] = True
    [secret] = documents(deploy.rendered(values)["store-url.yaml"])
    assert secret["stringData"] == {"url": "redis://waystation-store:6379"}

    values["store"] |= {"enabled": False, "url": ""}
    assert documents(deploy.rendered(values)["store-url.yaml"]) == []


def test_the_parts_of_spark_on_kubernetes_name_each_other() -> None:
    assert [len(found) for found in SPARK.values()] == [1] * len(SPARK)
    kinds = {found[0]["kind"]: found[0]["metadata"]["name"] for found in SPARK.values()}
    [driver], [binding], [service] = SPARK["driver"], SPARK["role-binding"], SPARK["driver-service"]
    pod = driver["spec"]["template"]["spec"]
    [container] = pod["containers"]
    conf = dict(
        line.split(None, 1)
        for line in SETTINGS["data"]["spark-defaults.conf"].splitlines()
        if not line.startswith("#")
    )

    assert pod["serviceAccountName"] == kinds["ServiceAccount"] == binding["subjects"][0]["name"]
    assert binding["roleRef"]["name"] == kinds["Role"]
    assert service["spec"]["selector"] == driver["spec"]["template"]["metadata"]["labels"]
    assert conf["spark.driver.host"] == kinds["Service"]
    ports = [str(port["port"]) for port in service["spec"]["ports"]]
    assert ports == [conf["spark.driver.port"], conf["spark.driver.blockManager.port"]]
    assert ports == [str(port["containerPort"]) for port in container["ports"]]
    assert conf["spark.kubernetes.container.image"] == container["image"]
    assert (
        conf["spark.kubernetes.executor.podTemplateContainerName"]
        == (EXECUTOR["spec"]["containers"][0]["name"])
    )
    [settings] = [each for each in container["volumeMounts"] if each["name"] == "settings"]
    template = conf["spark.kubernetes.executor.podTemplateFile"]
    assert template == f"{settings['mountPath']}/executor.yaml"
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for spec in (pod, EXECUTOR["spec"])
        for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert claims == [kinds["PersistentVolumeClaim"]] * 2
    mounts = EXECUTOR["spec"]["containers"][0]["volumeMounts"]
    assert [mount for mount in mounts if mount not in container["volumeMounts"]] == []


def bundle() -> dict[str, Any]:
    return yaml.safe_load((BUNDLE / "databricks.yml").read_text())


def included() -> list[Path]:
    return [file for pattern in bundle()["include"] for file in sorted(BUNDLE.glob(pattern))]


def bundled_job() -> dict[str, Any]:
    """The job of the bundle."""
    [file] = included()
    [job] = yaml.safe_load(file.read_text())["resources"]["jobs"].values()
    return job


def test_the_job_of_the_bundle_is_what_databricks_takes() -> None:
    job = bundled_job()
    assert Job.from_dict(cast(Any, job)).as_dict() == job
    [task], [cluster] = job["tasks"], job["job_clusters"]
    assert task["job_cluster_key"] == cluster["job_cluster_key"]
    [entry] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert task["python_wheel_task"]["entry_point"] == entry


def test_a_field_that_databricks_does_not_know_would_be_noticed() -> None:
    job = bundled_job()
    job["tasks"][0]["python_wheel_task"]["entrypoint"] = "waystation"
    with pytest.raises(ValueError, match="entrypoint"):
        Job.from_dict(cast(Any, job))


def test_every_variable_of_the_bundle_is_declared_and_used() -> None:
    page = bundle()
    assert set(page) == {"bundle", "include", "variables", "artifacts", "targets"}
    text = "".join(file.read_text() for file in [BUNDLE / "databricks.yml", *included()])
    assert set(re.findall(r"\$\{var\.(\w+)\}", text)) == set(page["variables"])
    assert (BUNDLE / page["artifacts"]["waystation"]["path"]).resolve() == ROOT


def test_the_bundle_installs_what_questions_without_spark_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [task] = bundled_job()["tasks"]
    installed = [each["pypi"]["package"] for each in task["libraries"] if "pypi" in each]
    assert installed == sorted(extras["optional-dependencies"]["ask"])


def test_the_scaler_follows_a_metric_that_there_is() -> None:
    [scaler] = [each for each in MANIFESTS if each["kind"] == "ScaledObject"]
    [trigger] = scaler["spec"]["triggers"]
    wanted = DesiredWorkers(made_at=0, until=1, workers=7, target_wait_ms=1000)
    exposed = "\n".join(recommended(Product.BULLMQ, {"mail": Forecast(workers=wanted)}))

    metric = re.search(r"max\((\w+)\{queue=\"mail\"\}\)", trigger["metadata"]["query"])

    assert metric
    assert f'{metric[1]}{{product="bullmq",queue="mail"}} 7' in exposed
    targets = {each["metadata"]["name"] for each in NATIVE if each["kind"] == "Deployment"}
    assert scaler["spec"]["scaleTargetRef"]["name"] in targets


def test_every_command_exists() -> None:
    commands = [each["args"] for each in ours()]
    commands += [task["python_wheel_task"]["parameters"] for task in bundled_job()["tasks"]]
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


@pytest.mark.parametrize("file", ["Dockerfile", "spark/Dockerfile"])
def test_an_image_installs_extras_that_there_are(file: str) -> None:
    text = (PLACE / file).read_text()
    project = (ROOT / "pyproject.toml").read_text()
    extras = re.findall(r"EXTRAS=([a-z,]+)", text) + re.findall(r'"\.\[([a-z,]+)\]"', text)
    assert extras
    for extra in extras:
        for name in extra.split(","):
            assert re.search(rf"^{name} = \[", project, re.MULTILINE), name
    for source in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / each).exists() for each in source.split()), source
