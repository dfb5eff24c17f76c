"""What a platform adds to a process, and where its processes write.

Kubernetes tells each pod about all Services by variables; systemd and containers decide which
directories can be written.
"""

import asyncio
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest
import yaml

from tests.deploy.test_deploy import MANIFESTS, NATIVE, PLACE, UNITS, compose, unit_of
from tests.support.patience import LIMIT_S
from tests.support.ports import free_port
from tests.support.processes import Process, running
from waystation.cli.sections import SECTIONS
from waystation.core.errors import InvalidSetting
from waystation.core.settings.load import load, together
from waystation.core.settings.section import rows
from waystation.files.settings import load_files

IMAGE = (PLACE / "Dockerfile").read_text()
IMAGE_VARIABLES = dict(re.findall(r"(WAYSTATION_\w+)=(\S+)", IMAGE))


def service_links(name: str, *ports: tuple[str, int]) -> dict[str, str]:
    """The variables that Kubernetes makes of a Service with a cluster address."""
    start, address, (_, first) = name.upper().replace("-", "_"), "10.0.0.7", ports[0]
    found = {
        f"{start}_SERVICE_HOST": address,
        f"{start}_SERVICE_PORT": str(first),
        f"{start}_PORT": f"tcp://{address}:{first}",
    }
    for port_name, port in ports:
        found |= {
            f"{start}_SERVICE_PORT_{port_name.upper()}": str(port),
            f"{start}_PORT_{port}_TCP": f"tcp://{address}:{port}",
            f"{start}_PORT_{port}_TCP_PROTO": "tcp",
            f"{start}_PORT_{port}_TCP_PORT": str(port),
            f"{start}_PORT_{port}_TCP_ADDR": address,
        }
    return found


def all_service_links() -> dict[str, str]:
    services = [each for each in NATIVE if each["kind"] == "Service"]
    assert len(services) >= 3
    return {
        name: text
        for each in services
        for name, text in service_links(
            each["metadata"]["name"],
            *((port["name"], port["port"]) for port in each["spec"]["ports"]),
        ).items()
    }


def test_what_kubernetes_adds_for_our_services_sets_nothing(tmp_path: Path) -> None:
    environ = all_service_links()
    assert "WAYSTATION_ROOM_PORT" in environ
    assert load(SECTIONS, tmp_path / "none.yaml", environ=environ).origins == {}
    assert load_files(tmp_path / "none.yaml", environ=environ).origins == {}


def test_no_name_of_a_service_is_taken_for_a_setting(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    for row in rows(together(SECTIONS)):
        words = "-".join(row.key).replace("_", "-")
        for name in (f"waystation-{words}", words.removeprefix("files-")):
            for end in ("", "-port", "-host"):
                links = service_links(name.removesuffix(end), ("http", 80), ("tcp", 443))
                environ |= links
    assert load(SECTIONS, tmp_path / "none.yaml", environ=environ).origins == {}
    assert load_files(tmp_path / "none.yaml", environ=environ).origins == {}


def test_a_slip_is_still_refused_next_to_the_variables_of_services() -> None:
    environ = all_service_links() | {"WAYSTATION_CONSOLE_HOST": "0.0.0.0"}
    with pytest.raises(InvalidSetting, match="did you mean WAYSTATION_CONSOLE__HOST"):
        load(SECTIONS, environ=environ)
    own = service_links("waystation", ("http", 80)) | {"WAYSTATION_CONSOLE__PORT": "8099"}
    assert load(SECTIONS, environ=own).origins == {("console", "port"): "WAYSTATION_CONSOLE__PORT"}


class Started(NamedTuple):
    """One process as a platform starts it."""

    place: str
    words: Sequence[str]
    environ: Mapping[str, str]
    lasting: Sequence[str]
    """Directories that it may write to and that outlive it."""
    fleeting: Sequence[str] = ()
    """Directories that it may write to."""


def in_pods() -> Iterator[Started]:
    for manifest in NATIVE:
        pod: dict[str, Any] = manifest.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", ()):
            kept = {each["metadata"]["name"] for each in _claims(manifest)}
            kept |= {each["name"] for each in pod.get("volumes", ()) if "emptyDir" not in each}
            rights = pod["securityContext"]
            mounts = [each for each in container["volumeMounts"] if not each.get("readOnly")]
            lasting = [each["mountPath"] for each in mounts if each["name"] in kept]
            assert not lasting or rights["fsGroup"] == rights["runAsUser"]
            given = {each["name"]: each.get("value", "") for each in container.get("env", ())}
            yield Started(
                f"kubernetes {manifest['metadata']['name']}",
                container["args"],
                IMAGE_VARIABLES | {name: text for name, text in given.items() if text},
                lasting,
                [each["mountPath"] for each in mounts if each["name"] not in kept],
            )


def _claims(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return manifest["spec"].get("volumeClaimTemplates", [])


def in_containers() -> Iterator[Started]:
    made = re.search(r"install --directory --owner 10001 (.*)", IMAGE)
    assert made
    for name, service in compose()["services"].items():
        mounts = [each.split(":") for each in service.get("volumes", ())]
        lasting = [each[1] for each in mounts if each[-1] != "ro"]
        if service["image"].startswith("waystation"):
            lasting = [each for each in lasting if each in made[1].split()]
        yield Started(
            f"compose {name}",
            service["command"],
            IMAGE_VARIABLES | service.get("environment", {}),
            lasting,
            ["/tmp"],
        )


def in_units() -> Iterator[Started]:
    for file in UNITS:
        service = unit_of(file)["Service"]
        environ = dict(each.split("=", 1) for each in service["Environment"].split())
        yield Started(
            f"systemd {file.name}",
            service["ExecStart"].partition("bin/waystation ")[2].split(),
            environ,
            [f"/var/lib/{service['StateDirectory']}"],
            [f"/var/cache/{service['CacheDirectory']}", "/tmp"],
        )


PROCESSES = [*in_pods(), *in_containers(), *in_units()]
OURS = [each for each in PROCESSES if each.words[0] in {*SECTIONS, "exporter"}]


def paths_of(section: Any, above: str) -> Iterator[tuple[str, PurePosixPath]]:
    """The settings of a section that are paths: what its process writes and must find again."""
    for field in getattr(section, "__struct_fields__", ()):
        value, name = getattr(section, field), f"{above}.{field}"
        if isinstance(value, Path):
            yield name, PurePosixPath(value)
        yield from paths_of(value, name)


@pytest.mark.parametrize("process", OURS, ids=lambda process: process.place)
def test_what_a_process_writes_is_on_a_volume_that_outlives_it(process: Started) -> None:
    found = load(SECTIONS, Path("/none.yaml"), environ=process.environ).top
    written = dict(paths_of(getattr(found, process.words[0], None), process.words[0]))
    assert bool(written) == (process.words[0] in {"room", "pipeline"})
    for name, path in written.items():
        assert any(path.is_relative_to(each) for each in process.lasting), (name, path)
    cache = PurePosixPath(process.environ["WAYSTATION_CACHE"])
    assert any(cache.is_relative_to(each) for each in (*process.fleeting, *process.lasting))


def test_the_stores_keep_their_data() -> None:
    stores = [each for each in PROCESSES if each.words[0] == "valkey-server"]
    assert [list(each.lasting) for each in stores] == [["/data"]] * 2


def test_all_units_share_one_user_because_they_share_a_directory() -> None:
    services = [unit_of(file)["Service"] for file in UNITS]
    assert {(each["DynamicUser"], each["User"]) for each in services} == {("yes", "waystation")}
    assert {each["ProtectSystem"] for each in services} == {"strict"}


RECORDER = """\
import os, sys, threading

_kinds = {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate"}
_busy = threading.local()

def _note(event, args):
    if getattr(_busy, "now", False) or sys.is_finalizing():
        return
    path = args[0] if args else None
    if event == "open":
        _, mode, flags = args
        if not (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
    elif event not in _kinds:
        return
    if isinstance(path, (str, os.PathLike)):
        _busy.now = True
        try:
            with open(os.environ["RECORD"], "a") as file:
                file.write(os.path.abspath(path) + "\\n")
        finally:
            _busy.now = False

sys.addaudithook(_note)
"""
SERVING = ("worker", "room", "console", "exporter")


def started_pod(name: str) -> tuple[list[str], dict[str, str]]:
    [pod] = [each for each in in_pods() if each.words[0] == {"worker": "bullmq"}.get(name, name)]
    return list(pod.words), dict(pod.environ)


@pytest.mark.parametrize("name", SERVING)
async def test_a_pod_gets_ready_among_services_and_writes_to_its_volumes_only(
    name: str, tmp_path: Path, redis_url: str
) -> None:
    words, environ = started_pod(name)
    port, metrics = free_port(), free_port()
    words = [re.sub(r"^(8080|9464)$", str(port), word) for word in words]
    words = [re.sub(r"^0\.0\.0\.0:\d+$", f"0.0.0.0:{port}", word) for word in words]
    words = [word.replace("0.0.0.0", "127.0.0.1") for word in words]
    volumes = tmp_path / "volumes"
    volumes.mkdir()
    (tmp_path / "sitecustomize.py").write_text(RECORDER)
    (tmp_path / "handlers.py").write_text((PLACE / "handlers.py").read_text())
    record = tmp_path / "record"
    record.touch()
    environ = {key: re.sub("^/(keys|tmp)", str(volumes), text) for key, text in environ.items()}
    environ |= all_service_links() | {
        "WAYSTATION_STORE__URL": redis_url,
        "WAYSTATION_TELEMETRY__METRICS_HOST": "127.0.0.1",
        "WAYSTATION_TELEMETRY__METRICS_PORT": str(metrics),
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(volumes),
        "RECORD": str(record),
    }
    probed = port if name in {"console", "exporter"} else metrics

    with running(tmp_path, "-m", "waystation", *words, **environ) as process:
        await _ready(process, probed)
        await process.stop()

    written = {each for each in record.read_text().splitlines() if not each.startswith("/dev/")}
    assert [each for each in written if not each.startswith(str(volumes))] == []
    assert (name == "room") == any(each.endswith("room-keys.json") for each in _files(volumes))


def _files(place: Path) -> list[str]:
    return [str(each) for each in place.rglob("*")]


async def _ready(process: Process, port: int) -> None:
    def asked(_: Process) -> bool:
        try:
            url = f"http://127.0.0.1:{port}/readyz"
            with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    async with asyncio.timeout(LIMIT_S):
        await process.until(asked)


def test_a_stale_history_leaves_the_number_of_workers_as_it_is() -> None:
    [scaler] = [each for each in MANIFESTS if each["kind"] == "ScaledObject"]
    fallback, [trigger] = scaler["spec"]["fallback"], scaler["spec"]["triggers"]
    # KEDA falls back when the query fails, and for an average only.
    assert fallback["behavior"] == "currentReplicas"
    assert trigger["metadata"]["ignoreNullValues"] == "false"
    assert trigger["metricType"] == "AverageValue"


def test_commands_in_the_texts_name_what_they_need() -> None:
    page = (PLACE / "compose.yaml").read_text()
    guide = (PLACE.parent / "docs/how-to/deploy.md").read_text()
    named = re.findall(r"docker compose (\S+ \S+)", page + guide)
    assert len(named) >= 5
    assert set(named) == {"-f deploy/compose.yaml"}

    variables = yaml.safe_load(bundle := (PLACE / "databricks/databricks.yml").read_text())
    required = {name for name, each in variables["variables"].items() if "default" not in each}
    guide = (PLACE.parent / "docs/how-to/pipeline-cluster.md").read_text()
    for text in (bundle, guide):
        assert set(re.findall(r"BUNDLE_VAR_(\w+)=", text)) == required
