"""A release: built from the commit, looked at, and tried as somebody gets it who installs it today.

    python -m tools.release [PROGRAM...]

What is published lies in `dist`; what it needs (an SBOM) and checksums lie in `build/release`. Each
program of `tests/smoke`, or those that are named, runs on every Python of this machine in an
environment of its own.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from tools.bootstrap import VENV
from tools.environments import UV, python_with
from tools.step import ROOT, Unready, run, say
from waystation import __version__
from waystation.core.store import embedded

DIST, WORK = ROOT / "dist", ROOT / "build" / "release"
SOURCE = WORK / "source"
SMOKE = ROOT / "tests" / "smoke"
KEPT = ROOT / "tests" / "releases" / __version__ / "history.tar.xz"
"""A history that the programs can ask."""
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
FRAMEWORKS = ("django", "fastapi", "sqlalchemy")
"""Programs about a package that no extra brings."""
EXTRA_OF = {"demo": "[embedded]", **dict.fromkeys(FRAMEWORKS, "")}
"""Programs that are not called as their extra."""
OF_SDIST = ("PKG-INFO", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore")
LIMIT_S = 900


class Check(NamedTuple):
    """Something that must hold, and what it holds for."""

    what: str
    of: str
    look: Callable[[], str]
    """Says what it found, or raises `Unready`."""


def main() -> int:
    """Build, check, and print a row for each check as it ends."""
    try:
        wheel, sdist = build()
        here = pythons()
    except Unready as reason:
        sys.exit(f"nothing is released: {reason}")
    bill = WORK / f"{wheel.name.split('-py3')[0]}.cdx.json"
    asked = sys.argv[1:] or programs()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        checks = [*of_files(wheel, sdist), *of_programs(wheel, sdist, here, asked)]
        held = [*pool.map(_holds, checks)]
    if "all" in asked:
        held.append(_holds(Check("SBOM", bill.name, lambda: bill_of_materials(here, bill))))
        sums = Check("checksums", "SHA256SUMS", lambda: checksums(wheel, sdist, bill))
        held.append(_holds(sums))
    missing = [each for each in versions() if each not in here]
    say(f"{sum(held)} of {len(held)} hold, on Python {', '.join(here)}")
    if missing:
        say(f"Not tried, because they are not on this machine: {', '.join(missing)}")
    return 0 if all(held) else 1


def build() -> tuple[Path, Path]:
    """The wheel and the sdist of the commit, by the build backend that is pinned."""
    if _git("status", "--porcelain"):
        say("Only what is committed is built.")
    for folder in (DIST, WORK):
        rmtree(folder, ignore_errors=True)
    run(["git", "clone", "--quiet", ROOT, SOURCE], why="taking the commit")
    _build(DIST)
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, sdist


def versions() -> list[str]:
    """The Pythons that the package says it is for."""
    return re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))


def pythons() -> dict[str, Path]:
    """Those of this machine: on the path, of uv, of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = [os.environ["PATH"], *map(str, sorted(pyenv.glob("*/bin")))]
    environment = os.environ | {"PATH": os.pathsep.join(places), "UV_PYTHON_DOWNLOADS": "never"}
    found: dict[str, Path] = {}
    for version in versions():
        find = [UV, "python", "find", "--no-project", "--system", version]
        done = subprocess.run(find, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found[version] = Path(done.stdout.strip())
    return found


def of_files(wheel: Path, sdist: Path) -> Iterator[Check]:
    """What can be seen without installing anything."""
    yield Check("version", wheel.name, lambda: version(wheel))
    yield Check("contents", wheel.name, lambda: wheel_contents(wheel))
    yield Check("contents", sdist.name, lambda: sdist_contents(sdist))
    yield Check("same wheel", "sdist and source", lambda: same_wheel(wheel))
    yield Check("metadata", "both", lambda: described(wheel, sdist))


def version(wheel: Path) -> str:
    """A tag names the version, and so does the changelog, which has nothing newer."""
    number = wheel.name.split("-")[1]
    changes = (SOURCE / "CHANGELOG.md").read_text()
    if not re.search(rf"^## \[{re.escape(number)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        raise Unready(f"CHANGELOG.md has no section [{number}] with a date")
    found = tags()
    if not found:
        return "no tag yet"
    if found != [f"v{number}"]:
        raise Unready(f"wanted the tag v{number}, got {', '.join(found)}")
    if not re.search(rf"^## \[Unreleased\]\s+## \[{re.escape(number)}\]", changes, re.MULTILINE):
        raise Unready(f"something in CHANGELOG.md is newer than [{number}]")
    return f"tag {found[0]}"


def tags() -> list[str]:
    """The versions that the commit is tagged as."""
    return _git("tag", "--points-at", "HEAD", "--list", "v*").split()


def wheel_contents(wheel: Path) -> str:
    """Every file of the package that git knows, Lua, pages, languages and all; and no other."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    return same_files(names, {each.removeprefix("src/") for each in _package()})


def sdist_contents(sdist: Path) -> str:
    """The same files, and what a build needs."""
    with tarfile.open(sdist) as files:
        names = {each.name.partition("/")[2] for each in files.getmembers() if each.isfile()}
    return same_files(names, {*_package(), *OF_SDIST})


def same_files(names: set[str], wanted: Iterable[str]) -> str:
    """How many files there are, if they are those that are wanted."""
    if differing := sorted(names.symmetric_difference(wanted)):
        raise Unready(f"git and the archive differ in {differing}")
    return f"{len(names)} files"


def same_wheel(wheel: Path) -> str:
    """The wheel came out of the sdist; the source gives the same one, byte by byte."""
    _build(WORK / "again", "--wheel")
    if digest(WORK / "again" / wheel.name) != digest(wheel):
        raise Unready("the wheel of the source differs from the one of the sdist")
    return digest(wheel)[:12]


def described(wheel: Path, sdist: Path) -> str:
    """An index takes them, and their page has no link that is dead there."""
    run([*_tool("twine"), "check", "--strict", wheel, sdist], why="reading the metadata")
    [place] = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA")]
    text = zipfile.ZipFile(wheel).read(place).decode()
    if dead := re.findall(r"\]\((?!https?://|#)([^)]*)\)", text):
        raise Unready(f"links that lead nowhere on an index: {dead}")
    return f"{wheel.stat().st_size // 1000} kB, {sdist.stat().st_size // 1000} kB"


def of_programs(
    wheel: Path, sdist: Path, pythons: dict[str, Path], asked: Iterable[str]
) -> Iterator[Check]:
    """Every program with the wheel, and the README's with what the sdist gives, on each Python."""
    for number, python in pythons.items():
        yield _tried(number, python, sdist, "embedded")
        for name in asked:
            yield _tried(number, python, wheel, name)


def programs() -> list[str]:
    """Names of all programs, the longest one first."""
    names = sorted(each.stem for each in SMOKE.glob("*.py"))
    return sorted(names, key=lambda name: name not in ("spark", "all", "demo"))


def _tried(number: str, python: Path, file: Path, name: str) -> Check:
    kind = "wheel" if file.suffix == ".whl" else "sdist"
    what = f"{kind}{EXTRA_OF[name]}, {name}" if name in EXTRA_OF else f"{kind}[{name}]"
    folder = WORK / number / f"{kind}-{name}"
    return Check(what, f"Python {number}", lambda: attempt(folder, python, file, name))


def attempt(folder: Path, python: Path, file: Path, name: str) -> str:
    """Install a file with one extra, or with one framework, and run the program of that name."""
    ours = folder / "env" / "bin" / "python"
    ourselves = f"waystation{EXTRA_OF.get(name, f'[{name}]')} @ {file.as_uri()}"
    wanted = [ourselves, *(each for each in FRAMEWORKS if each == name)]
    run([UV, "venv", "--quiet", "--python", python, folder / "env"], why="making an environment")
    run([UV, "pip", "install", "--quiet", "--python", ours, *wanted], why=f"installing {wanted}")
    play(ours, name, folder)
    installed = folder.glob("env/lib/*/site-packages/*.dist-info")
    return f"{len([*installed])} packages"


def play(python: Path, name: str, folder: Path) -> None:
    """Run one of the programs with nothing around it but an empty store and a kept history."""
    with tarfile.open(KEPT) as files:
        files.extractall(folder / ".waystation", filter="data")
    clean = {"PATH": f"{python.parent}:{os.defpath}", "HOME": str(folder), "TERM": "xterm"}
    with embedded.ephemeral() as server:
        if name not in ("embedded", "demo"):  # whose extra brings a server
            clean["WAYSTATION_STORE__URL"] = server.url
        run(
            [python, "-P", SMOKE / f"{name}.py"],
            why=f"{name}.py",
            cwd=folder,
            env=clean,
            limit_s=LIMIT_S,
        )


def bill_of_materials(pythons: dict[str, Path], file: Path) -> str:
    """What the oldest Python got with all extras, in CycloneDX, valid by its schema."""
    python = WORK / next(iter(pythons)) / "wheel-all" / "env" / "bin" / "python"
    into = ["--output-reproducible", "--validate", "--output-file", file]
    # The version is told by the source, where the program does not look.
    told, project = (SOURCE / "pyproject.toml").read_text(), WORK / "pyproject.toml"
    project.write_text(re.sub("(?m)^dynamic = .*$", f'version = "{__version__}"', told))
    of = ["environment", "--pyproject", project, python]
    run([*_tool("cyclonedx-py"), *of, *into], why="listing what it needs")
    listed = {each["name"] for each in json.loads(file.read_text())["components"]}
    return f"{len(listed)} packages"


def checksums(*files: Path) -> str:
    """A line for each file, as `sha256sum --check` reads them."""
    lines = [f"{digest(each)}  {each.name}\n" for each in files]
    (WORK / "SHA256SUMS").write_text("".join(lines))
    return f"{len(lines)} files"


def digest(file: Path) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _holds(check: Check) -> bool:
    began = time.monotonic()
    try:
        found, holds = check.look(), True
    except Unready as reason:
        found, holds = f"FAILED: {reason}", False
    took = time.monotonic() - began
    say(f"{check.what:20} {check.of:36} {took:5.1f} s  {found}")
    return holds


def _build(into: Path, *kinds: str) -> None:
    options = ["--quiet", "--no-build-isolation", "--python", VENV / "bin" / "python"]
    run([UV, "build", *options, *kinds, "--out-dir", into, SOURCE], why="building")


def _tool(name: str) -> list[str | Path]:
    return [python_with("release", "twine==7.*", "cyclonedx-bom==7.*").parent / name]


def _package() -> list[str]:
    return _git("-C", str(SOURCE), "ls-files", "src/waystation").splitlines()


def _git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True)


if __name__ == "__main__":
    sys.exit(main())
