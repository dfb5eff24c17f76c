"""Plain Kubernetes manifests, rendered from the Helm chart with its default values.

Only the few parts of Go's templates that the chart uses are known here: values, `if`, `if not`,
`range`, `quote` and `toJson`.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "waystation"
MANIFESTS = ROOT / "deploy" / "kubernetes"
NAME = "waystation"

_BLOCK = re.compile(r"^\{\{- (if not|if|range) (\S+) \}\}$")
_END = "{{- end }}"
_VALUE = re.compile(r"\{\{ (?:(quote|toJson) )?(\$?\.\S+) \}\}")


def rendered(values: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The text of every template with these values, or the chart's own, by its file's name."""
    chosen = values or yaml.safe_load((CHART / "values.yaml").read_text())
    top = {
        "Values": chosen,
        "Release": {"Name": NAME},
        "Chart": yaml.safe_load((CHART / "Chart.yaml").read_text()),
    }
    return {
        file.name: render(file.read_text(), top)
        for file in sorted((CHART / "templates").glob("*.yaml"))
    }


def manifests() -> dict[Path, str]:
    """The generated files and their texts; scaling is shown although the chart leaves it out."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values["keda"]["enabled"] = True
    note = "# Written by `make docs` from deploy/helm/waystation; change it there.\n"
    return {
        MANIFESTS / name: note + text.removesuffix("---\n").strip("\n") + "\n"
        for name, text in rendered(values).items()
    }


def render(text: str, top: Mapping[str, Any]) -> str:
    """A template with its values."""
    lines, end = _lines(text.splitlines(), 0, top, top)
    if end < len(text.splitlines()):
        raise ValueError(f"line {end + 1} ends what was not begun")
    return "".join(f"{line}\n" for line in lines)


def _lines(lines: list[str], at: int, top: Mapping[str, Any], here: Any) -> tuple[list[str], int]:
    found: list[str] = []
    while at < len(lines) and lines[at].strip() != _END:
        block = _BLOCK.match(lines[at].strip())
        if block is None:
            found.append(_VALUE.sub(lambda match: _text(match, top, here), lines[at]))
            at += 1
            continue
        kind, value = block[1], _look_up(block[2], top, here)
        is_shown = not value if kind == "if not" else value
        each_of = list(value) if kind == "range" else [here] if is_shown else []
        for each in each_of:
            inner, _ = _lines(lines, at + 1, top, each)
            found += inner
        at = _lines(lines, at + 1, top, _Any() if kind == "range" else here)[1] + 1
    return found, at


class _Any(dict[str, Any]):
    """Stands for an element where only the end of a block is looked for."""

    def __missing__(self, name: str) -> str:
        return ""


def _text(match: re.Match[str], top: Mapping[str, Any], here: Any) -> str:
    value = _look_up(match[2], top, here)
    match match[1]:
        case "quote":
            return json.dumps(str(value))
        case "toJson":
            return json.dumps(value)
        case _:
            return str(value)


def _look_up(path: str, top: Mapping[str, Any], here: Any) -> Any:
    found = top if path.startswith("$") else here
    for name in path.removeprefix("$").strip(".").split("."):
        found = found[name]
    return found
