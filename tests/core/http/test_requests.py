"""Requests that came: whole or refused, and found whatever their path is."""

import contextlib
from typing import Any

import pytest

from waystation.core.errors import ScriptFailed, StoreUnreachable
from waystation.core.http.endpoints import Endpoint, Table
from waystation.core.http.exchange import Answer, Message, Request, SlowBodies, reported
from waystation.core.http.problems import Problem


def request(*messages: Message, headers: Any = ()) -> Request:
    coming = iter(messages)

    async def receive() -> Message:
        return next(coming)

    scope = {"method": "POST", "path": "/", "headers": list(headers), "query_string": b""}
    return Request(scope, receive, "127.0.0.1", slow=SlowBodies())


@pytest.mark.parametrize("headers", [(), ((b"content-length", b"9"),)])
async def test_a_body_that_is_cut_off_is_not_taken_for_whole(headers: Any) -> None:
    part = {"type": "http.request", "body": b"seats=10", "more_body": True}
    with pytest.raises(Problem, match="cut off"):
        await request(part, {"type": "http.disconnect"}, headers=headers).form()
    rest = {"type": "http.request", "body": b"0"}
    assert await request(part, rest, headers=headers).form() == {"seats": "100"}


async def nothing(_: Request) -> Answer:
    return Answer()


@pytest.mark.parametrize("part", ["{}", "/", "{name}", "", "x", ".", "%7B%7D", "{}{}"])
def test_any_path_is_found_or_is_not_there(part: str) -> None:
    paths = ["/a/{one}/b/{two}", "/a/{one}", "/{any}/c"]
    table = Table(
        Endpoint(method="GET", path=path, handler=nothing, summary="", group="") for path in paths
    )
    for path in [f"/a/{part}", f"/{part}/c", f"/a/{part}/b/{part}", f"/{part}"]:
        with contextlib.suppress(Problem):
            found, slots = table.find("GET", path)
            names = [each for each in found.path.split("/") if each.startswith("{")]
            assert [f"{{{name}}}" for name in slots] == names


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [
        (ZeroDivisionError("a mistake"), True),
        (ScriptFailed("a mistake in a script"), True),
        (StoreUnreachable("away"), False),
        (Problem(500, "X", "said"), False),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_is_ours_to_mend_is_logged_with_its_traceback(
    error: Exception, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise error
    except Exception as raised:
        _, request_id, _ = reported(raised)
    assert bool(caplog.records) is is_logged
    for record in caplog.records:
        assert record.getMessage().startswith("request_failed")
        assert record.exc_info
        assert record.exc_info[1] is error
        assert request_id in record.getMessage()
