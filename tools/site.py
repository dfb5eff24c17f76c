"""The documentation site: the repository's pages, laid out and built into `build/site`.

The pages are written to be read on a forge, where the README lies above `docs` and links lead into
the source. `pages` gives each its place on the site; `lay_out` copies them and turns links that
leave the site into links to the forge. Zensical checks all the others, anchors too.

python -m tools.site
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

from tools.step import ROOT

FORGE = "https://github.com/waystation/waystation"
CONFIG = ROOT / "zensical.toml"
PAGES = ROOT / "build" / "pages"
LINK = re.compile(r"(?P<fence>```.*?```)|(?P<before>\]\()(?P<to>[^)\s]+)(?P<after>\))", re.DOTALL)
AT_THE_ROOT = {"README.md": "index.md", "docs/README.md": "pages.md"}


def pages() -> dict[str, str]:
    """Every page of the repository by its place on the site."""
    docs = {f"docs/{name}" for name in _files(ROOT / "docs", ".md")} - AT_THE_ROOT.keys()
    own = {file.name for file in ROOT.glob("*.md")} - AT_THE_ROOT.keys()
    return (
        {to: source for source, to in AT_THE_ROOT.items()}
        | {source.removeprefix("docs/"): source for source in docs}
        | {f"project/{source.lower().replace('_', '-')}": source for source in own}
    )


def navigation() -> list[str]:
    """The pages that the site's navigation holds, in its order."""
    found: list[str] = []

    def walk(entry: object) -> None:
        match entry:
            case str():
                if "://" not in entry:
                    found.append(entry)
            case list():
                for each in entry:  # pyright: ignore[reportUnknownVariableType]
                    walk(each)  # pyright: ignore[reportUnknownArgumentType]
            case dict():
                for each in entry.values():  # pyright: ignore[reportUnknownVariableType]
                    walk(each)  # pyright: ignore[reportUnknownArgumentType]
            case _:
                raise TypeError(f"wanted a page or a list of them, got {entry!r}")

    walk(tomllib.loads(CONFIG.read_text())["project"]["nav"])
    return found


def lay_out(folder: Path) -> None:
    """Write every page, and the pictures, to where the site wants them."""
    shutil.rmtree(folder, ignore_errors=True)
    places = {source: to for to, source in pages().items()}
    for source, to in places.items():
        target = folder / to
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_relinked((ROOT / source).read_text(), source, places))
    shutil.copytree(ROOT / "docs" / "pictures", folder / "pictures")


def main() -> int:
    """Build the site; every warning is an error."""
    lay_out(PAGES)
    zensical = Path(sys.executable).parent / "zensical"
    command = [zensical, "build", "--strict", "--clean", "--config-file", CONFIG]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _relinked(text: str, source: str, places: dict[str, str]) -> str:
    here = os.path.dirname(places[source])

    def moved(to: str) -> str:
        if "://" in to or to.startswith(("#", "mailto:")):
            return to
        path, hash, anchor = to.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if target in places:
            return os.path.relpath(places[target], here or ".") + hash + anchor
        if target.startswith("docs/pictures/"):
            return os.path.relpath(target.removeprefix("docs/"), here or ".")
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{FORGE}/{kind}/main/{target}{hash}{anchor}"

    return LINK.sub(_outside_code(moved), text)


def _outside_code(moved: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    return lambda at: at["fence"] or at["before"] + moved(at["to"]) + at["after"]


def _files(folder: Path, suffix: str) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob(f"*{suffix}")}


if __name__ == "__main__":
    sys.exit(main())
