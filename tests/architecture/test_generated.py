"""Modules that `make docs` writes."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tools import generated, scripts
from waystation.bullmq.redis import replies
from waystation.bullmq.redis.keys import JobKeys, QueueKeys


def _function(folder: Path, *header: str, readers: ModuleType = replies) -> str:
    file = folder / "take.lua"
    file.write_text("".join(f"--- {line}\n" for line in header) + "return 1")
    return scripts.function(file, [QueueKeys, JobKeys], readers).strip()


def test_a_function_takes_what_the_header_of_its_script_says(tmp_path: Path) -> None:
    header = "args  id most:int=5 now:str|int= more:str|bytes... -> settlement"
    assert _function(tmp_path, "Take it.", "keys  job logs", header) == (
        "@script(reply=replies.settlement)\n"
        "async def take(redis: Client, keys: JobKeys, *, id: str, most: int = 5, "
        "now: str | int = '', more: Sequence[str | bytes]) -> replies.Settlement:\n"
        '    """Take it."""\n'
        "    ..."
    )


def test_a_script_without_keys_or_arguments_takes_a_client_alone(tmp_path: Path) -> None:
    assert "take(redis: Client) -> list[int] | None:" in _function(
        tmp_path, "Take it.", "args  -> list[int]|None"
    )


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("args  id", "must say behind its arguments what it replies"),
        ("keys  wait nowhere\n--- args  -> int", "no keyspace has all of wait, nowhere"),
    ],
)
def test_a_header_that_says_too_little_is_refused(
    tmp_path: Path, header: str, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        _function(tmp_path, "Take it.", header)


@pytest.mark.parametrize("file", sorted(generated.SOURCE.rglob("*.pyi")), ids=str)
def test_every_name_of_a_stub_can_be_imported(file: Path) -> None:
    place = file.relative_to(generated.SOURCE).with_suffix("")
    package = importlib.import_module(".".join(place.parts).removesuffix(".__init__"))
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)
    listed = ast.literal_eval(file.read_text().rpartition("__all__ = ")[2])
    assert sorted(names.keys() - {"__builtins__"}) == sorted(listed) == sorted(package.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Quue'"):
        package.Quue  # noqa: B018
