"""A disk that is full soon."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Generator[None]:
    """Let a folder be a disk of this size; skipped where that is not allowed."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {error}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
