"""Keys change while people wait and shop, and nobody notices."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE, RoomService
from waystation.core.clock import HandClock
from waystation.core.errors import WrongState
from waystation.waitingroom.http.app import App
from waystation.waitingroom.signing import (
    ANNOUNCED_S,
    KINDS,
    LEEWAY_S,
    LIFE_S,
    KeyFile,
    Keyring,
    Kind,
)

KEYS = "/api/v1/admin/keys"


def test_keys_are_made_once_and_for_the_owner_s_eyes_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys.json"
    first, second = KeyFile(path).read(), KeyFile(path).read()
    assert first.to_json() == second.to_json()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["keys.json"]


def test_a_key_is_announced_before_it_signs_and_counts_after(tmp_path: Path) -> None:
    file, other = KeyFile(tmp_path / "keys.json"), KeyFile(tmp_path / "keys.json")
    before = file.read().ids(Kind.SESSION)
    other.read()
    now_s = 1_700_000_000
    after = file.rotate(Kind.SESSION, now_s=now_s).ids(Kind.SESSION)
    assert after[1:] == (before[0], before[1])
    with pytest.raises(WrongState, match=f"may be {ANNOUNCED_S} s after"):
        file.rotate(Kind.SESSION, now_s=now_s + ANNOUNCED_S - 1)
    with pytest.raises(WrongState):
        file.retire(Kind.SESSION, now_s=now_s + LIFE_S[Kind.SESSION] - 1)
    changed = other.changed()
    assert changed is not None
    assert changed.ids(Kind.SESSION) == after
    assert other.changed() is None
    last = file.retire(Kind.SESSION, now_s=now_s + LIFE_S[Kind.SESSION])
    assert len(last.ids(Kind.SESSION)) == 2
    assert last.ids(Kind.QUEUE) == changed.ids(Kind.QUEUE)


async def test_many_changes_at_once_are_made_one_after_the_other(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.read()
    rotate = [
        asyncio.to_thread(KeyFile(file.path).rotate, kind, now_s=1_700_000_000, emergency=True)
        for kind in Kind
    ]
    await asyncio.gather(*rotate)
    assert all(len(file.read().ids(kind)) == 3 for kind in Kind)
    assert sorted(os.listdir(tmp_path)) == ["keys.json", "keys.lock"]


def _signed(keys: Keyring, kind: Kind, now_s: int) -> str:
    """A token that lives as long as one of its kind may."""
    said: dict[str, Any] = {"iss": "w", "aud": "shop", "iat": now_s, "jti": "a", "owner": "o"}
    more = {"key": "k", "sub": "s", "exp": now_s + LIFE_S[kind]}
    return keys.sign(msgspec.convert(said | more, KINDS[kind]))


@pytest.mark.parametrize("kind", list(Kind))
@given(pauses=st.lists(st.integers(ANNOUNCED_S, 400 * 86_400), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None, database=None)
def test_a_token_counts_as_long_as_it_lives_however_often_keys_change(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, pauses: list[int]
) -> None:
    file = KeyFile(tmp_path_factory.mktemp("keys") / "keys.json")
    keys, now_s = file.read(), 1_700_000_000
    given, changes = list[tuple[int, str]](), list[int]()
    for pause in pauses:
        given.append((now_s, _signed(keys, kind, now_s)))
        now_s += pause
        keys = file.rotate(kind, now_s=now_s)
        alive = [token for since, token in given if now_s < since + LIFE_S[kind]]
        for token in alive:
            keys.verify(token, KINDS[kind], audience="shop", issuer="w", now_ms=now_s * 1000)
        # No key is kept for tokens that are all dead.
        changes.append(now_s)
        live = [at for at in changes if now_s - at < LIFE_S[kind] + LEEWAY_S]
        assert len(keys.ids(kind)) == 2 + len(live)


def test_a_change_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = KeyFile(tmp_path / "keys.json")
    before = file.read().to_json()
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _no_room)
        with pytest.raises(OSError, match="no room"):
            file.rotate(Kind.QUEUE, now_s=1_700_000_000)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["keys.json", "keys.lock"]
    assert file.read().to_json() == before
    file.rotate(Kind.QUEUE, now_s=1_700_000_000)


def _no_room(_: int) -> None:
    raise OSError("no room")


async def test_whoever_waits_shops_or_is_invited_notices_no_change(
    redis_url: str, tmp_path: Path
) -> None:
    clock = HandClock()
    async with harness.service(redis_url, clock=clock) as service:
        service, file = _with_file(service, tmp_path)
        admin = await service.operator()
        shopper, waiting = service.visitor(), service.visitor("10.1.1.2")
        begun = await shopper.enter()
        await waiting.join()
        sent = await service.visitor().get(f"/v1/verify?queue={QUEUE}")
        for kind in ("sessions", "tickets", "invitations"):
            assert (await admin.post(f"{KEYS}/rotate", {"kind": kind})).status_code == 200
        again = await admin.post(f"{KEYS}/rotate", {"kind": "sessions"})
        assert (again.status_code, again.json()["code"]) == (409, "WRONG_STATE")
        assert (await waiting.ask("GET", "status")).status_code == 200
        assert (await shopper.get(f"/v1/verify?queue={QUEUE}")).status_code == 204
        assert (await shopper.get(sent.headers["wr-location"])).status_code == 200
        assert len((await waiting.get("/.well-known/jwks.json")).json()["keys"]) == 3

        response = await admin.get(KEYS)
        assert {each["kind"] for each in response.json()["keys"]} == {
            "sessions", "tickets", "invitations",
        }  # fmt: skip
        assert "d" not in response.json()["keys"][0]
        gone = await admin.post(f"{KEYS}/retire", {"kind": "sessions", "emergency": True})
        assert gone.status_code == 200
        thief = service.visitor("10.9.9.9")
        headers = {"wr-session": begun["session_token"]}
        assert (await thief.get(f"/v1/verify?queue={QUEUE}", headers=headers)).status_code == 401
        assert file.changed() is None


async def test_a_challenge_outlives_a_change_of_keys(redis_url: str, tmp_path: Path) -> None:
    async with harness.service(redis_url, clock=HandClock()) as service:
        service, file = _with_file(service, tmp_path)
        mark = service.tokens.seal.stamp("text")
        service.tokens.adopt(file.rotate(Kind.QUEUE, now_s=1_700_000_000))
        assert service.tokens.seal.stamped("text", mark)
        assert not service.tokens.seal.stamped("other", mark)


async def test_keys_of_a_setting_are_changed_there(service: RoomService) -> None:
    admin = await service.operator()
    answer = await admin.post(f"{KEYS}/rotate", {"kind": "sessions"})
    assert (answer.status_code, answer.json()["code"]) == (409, "KEYS_ELSEWHERE")
    assert (await admin.post(f"{KEYS}/rotate", {"kind": "x"})).status_code == 400
    operator = await service.operator("operator")
    assert (await operator.get(KEYS)).status_code == 403


def _with_file(service: RoomService, folder: Path) -> tuple[RoomService, KeyFile]:
    file = KeyFile(folder / "keys.json")
    service.tokens.adopt(file.read())
    service.app = App(service.context, keys=file)
    return service, file
