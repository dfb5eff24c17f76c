"""The pages: every command, program, link and anchor on them, and their place on the site."""

import re
import shlex
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from typer.main import get_group

from tests.support.project import ROOT, tracked
from tools import site
from waystation.cli.mounts import MOUNTS, load
from waystation.cli.root import app

PAGES = tracked("*.md")
FENCED = re.compile(r"```(?:\w*)\n(.*?)```", re.DOTALL)
ANCHOR = re.compile(r"\]\((?P<page>[^)#\s]*)#(?P<name>[^)\s]+)\)")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
TYPED = re.compile(r"(?:^|(?<!from)[\s`(/])waystation ((?:[a-z-]|--)[^`\n#]*)")


@cache
def commands() -> dict[str, Any]:
    """Every command by its name, loaded."""
    return {mount.name: load(mount) for mount in MOUNTS}


def typed(page: Path) -> list[str]:
    """What follows `waystation` where a page shows something to type."""
    text = page.read_text()
    shown = [line for block in FENCED.findall(text) for line in block.splitlines()]
    shown += re.findall(r"`([^`\n]*waystation [^`\n]*)`", FENCED.sub("", text))
    return [found for line in shown for found in TYPED.findall(line)]


def wrong(words: list[str]) -> str | None:
    """What is wrong with a command; None when all of it is known."""
    known: dict[str, Any] = commands()
    options: dict[str, Any] = dict.fromkeys(("--debug", "--version", "--help", "-h"))
    options["--config"] = get_group(app).params[0]
    rest = iter(words)
    for word in rest:
        if word == "--":
            return None
        if word.startswith("-"):
            name, given, _ = word.partition("=")
            if name not in options:
                return f"no option {name}"
            if options[name] is not None and not options[name].is_flag and not given:
                next(rest, None)
        elif word in known:
            command = known[word]
            options |= {name: param for param in command.params for name in param.opts}
            options |= {name: param for param in command.params for name in param.secondary_opts}
            # Some groups import a command only when it is asked for.
            names = command.list_commands(None) if hasattr(command, "list_commands") else ()
            known = {name: command.get_command(None, name) for name in names}
        elif word == "…" or word.startswith("{"):
            return None
        elif known:
            return f"no command {word}"
    return None


def unknown_in(page: Path) -> list[str]:
    """The commands on a page, or in the sentences of a module, that nobody can type."""
    complaints: list[str] = []
    for line in typed(page):
        try:
            words = shlex.split(line)
        except ValueError:
            # A command that goes on in the next line: its beginning can be read.
            words = line.split()
        if problem := wrong(words):
            complaints.append(f"waystation {line}: {problem}")
    return complaints


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_on_a_page_exists(page: Path) -> None:
    assert unknown_in(page) == []


def test_every_command_that_a_sentence_of_ours_names_exists() -> None:
    sentences = tracked("src/*.py")
    found = {str(path.relative_to(ROOT)): unknown_in(path) for path in sentences}
    assert {place: complaints for place, complaints in found.items() if complaints} == {}
    assert sum(len(typed(path)) for path in sentences) > 50


def test_a_command_that_is_not_there_would_be_noticed() -> None:
    assert wrong(["bullmq", "--prefix", "shop", "cuonts", "mail"]) == "no command cuonts"
    assert wrong(["bulmq", "counts"]) == "no command bulmq"
    assert wrong(["bullmq", "counts", "mail", "--jsno"]) == "no option --jsno"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_program_on_a_page_can_be_read_by_python(page: Path) -> None:
    for program in PYTHON.findall(page.read_text()):
        compile(f"async def main():\n{indent(program, '    ')}\n    pass", str(page), "exec")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made as a forge makes them."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCED.sub("", page.read_text()), re.MULTILINE)
    found: list[str] = []
    for heading in headings:
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_in_a_link_is_a_heading(page: Path) -> None:
    links = [
        (page.parent / to if to else page, name)
        for to, name in ANCHOR.findall(FENCED.sub("", page.read_text()))
        if "://" not in to and (not to or to.endswith(".md"))
    ]
    assert [f"{to.name}#{name}" for to, name in links if name not in anchors(to)] == []


def test_the_sites_navigation_holds_every_page_once() -> None:
    assert sorted(site.navigation()) == sorted(site.pages())


def test_on_the_site_links_lead_to_its_pages_or_to_the_forge(tmp_path: Path) -> None:
    site.lay_out(tmp_path / "pages")
    home = (tmp_path / "pages" / "index.md").read_text()
    assert "](docs/" not in home
    for page in (tmp_path / "pages").rglob("*.md"):
        for to in re.findall(r"\]\(([^)\s#]+)", FENCED.sub("", page.read_text())):
            assert "://" in to or (page.parent / to).exists(), f"{page.name}: {to}"


def test_every_page_of_the_site_is_three_clicks_from_its_start(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    site.lay_out(folder)
    reached = seen = {folder / "index.md"}
    for _ in range(3):
        links = {
            (page.parent / to).resolve()
            for page in reached
            for to in re.findall(r"\]\(([^)\s#]+\.md)", page.read_text())
            if "://" not in to
        }
        reached, seen = links - seen, seen | links
    assert {page.relative_to(folder) for page in set(folder.rglob("*.md")) - seen} == set()
