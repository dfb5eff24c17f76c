"""Committed files serve every machine: packages pinned by hash, no path or host of one machine."""

import re

from tests.support.project import ROOT, tracked

# Spelled so that this file does not find itself.
PLACES = re.compile(r"(?<![\w.<}-])/(?:w[o]rk|r[o]ot|f[a]rm|h[o]me/\w+|t[m]p)/[\w.-]+")
HOSTS = re.compile(
    r"p[y]pi\.org|p[y]thonhosted\.org|npm[j]s\.org|deb\.d[e]bian\.org|repo1?\.m[a]ven"
)


def pins(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return {
        f"{found['name']} {found['when'] or ''}": found["version"]
        for found in re.finditer(
            r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<when>.+?))? \\$", text, re.MULTILINE
        )
    }


def test_no_file_names_a_place_of_one_machine() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {match.group()}"
        for file in tracked()
        for pattern in (PLACES, HOSTS)
        for match in pattern.finditer(file.read_text(errors="replace"))
    ]
    assert found == []


def test_every_package_is_pinned_by_hash() -> None:
    for name in ("demo", "test", "uv"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert len(pins(name)) == len(re.findall(r"^[a-z]", text, re.MULTILINE)) > 0
        assert "://" not in text


def test_the_demo_and_the_tests_agree_on_every_version() -> None:
    demo, test = ({key.split(" ")[0]: v for key, v in pins(n).items()} for n in ("demo", "test"))
    assert {name: version for name, version in demo.items() if test.get(name) != version} == {}
