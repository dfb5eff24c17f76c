"""Operator routes for the signing keys."""

import asyncio
from collections.abc import Callable

from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import Answer, Request, answer
from waystation.core.http.problems import Problem
from waystation.waitingroom.http.admin import bodies
from waystation.waitingroom.http.admin.context import FAILS, AdminContext
from waystation.waitingroom.http.bodies import rfc3339
from waystation.waitingroom.http.codes import RoomCode
from waystation.waitingroom.http.tokens import Tokens
from waystation.waitingroom.signing.keyfile import KeyFile
from waystation.waitingroom.signing.tokens import Keyring, Kind

KEYS = "/api/v1/admin/keys"
_NAMES = {"invitations": Kind.ENQUEUE, "tickets": Kind.QUEUE, "sessions": Kind.SESSION}


class SigningKeyAdmin:
    """Changes of keys; whoever waits or is inside does not notice."""

    def __init__(self, context: AdminContext, tokens: Tokens, file: KeyFile | None) -> None:
        self._context = context
        self._tokens = tokens
        self._file = file

    @endpoint(f"GET {KEYS}", gives={200: bodies.SigningKeys}, fails=FAILS, scope="admin")
    async def every(self, request: Request) -> Answer:
        """List the signing keys: current, next and previous."""
        await self._context.operators.require(request, "admin")
        return answer(await self._listed())

    @endpoint(
        f"POST {KEYS}/rotate",
        takes=bodies.KeyChange,
        gives={200: bodies.SigningKeys},
        fails=FAILS,
        scope="admin",
    )
    async def rotate(self, request: Request) -> Answer:
        """Rotate a signing key: use the next one, and announce another."""
        return await self._change(request, "rotate-key", KeyFile.rotate)

    @endpoint(
        f"POST {KEYS}/retire",
        takes=bodies.KeyChange,
        gives={200: bodies.SigningKeys},
        fails=FAILS,
        scope="admin",
    )
    async def retire(self, request: Request) -> Answer:
        """Retire the previous signing keys."""
        return await self._change(request, "retire-key", KeyFile.retire)

    async def _change(self, request: Request, action: str, step: Callable[..., Keyring]) -> Answer:
        who = await self._context.operators.require(request, "admin")
        asked = await request.read(bodies.KeyChange)
        if self._file is None:
            raise Problem(
                409, RoomCode.KEYS_ELSEWHERE, "the keys come from a setting; change them there"
            )
        kind = _NAMES[asked.kind]
        now_s = int(self._tokens.now_s())
        changed = await asyncio.to_thread(
            step, self._file, kind, now_s=now_s, emergency=asked.emergency
        )
        self._tokens.adopt(changed)
        after = {"kind": asked.kind, "emergency": asked.emergency}
        await self._context.operators.note(who, action, "", before=None, after=after)
        return answer(await self._listed())

    async def _listed(self) -> bodies.SigningKeys:
        when = {} if self._file is None else await asyncio.to_thread(self._file.rotated_at)
        listed = list[bodies.KeyIds]()
        for name, kind in _NAMES.items():
            next, current, *before = self._tokens.keyring.ids(kind)
            rotated = rfc3339(when[kind] * 1000) if when.get(kind) else None
            previous = before[0] if before else None
            listed.append(
                bodies.KeyIds(
                    kind=name, next=next, current=current, previous=previous, rotated_at=rotated
                )
            )
        return bodies.SigningKeys(keys=listed)
