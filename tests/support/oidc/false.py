"""An identity provider that says whatever a test wants it to."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.oidc.real import CLIENT, GRANTS
from tests.support.ports import free_port
from waystation.core.http.server import serving
from waystation.core.operators.oidc_settings import OidcOptions


class FalseProvider:
    """What it says about itself and about people can be changed before it is asked."""

    def __init__(self, port: int, public_url: str) -> None:
        self.issuer = f"http://127.0.0.1:{port}"
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
        self.options = OidcOptions(
            issuer=self.issuer,
            client_id=CLIENT,
            client_secret="any",
            public_url=public_url,
            grants=GRANTS,
        )
        self.itself: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/auth",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
        }
        self.status = 200
        self.signs = True
        self.token: Callable[[], str] = lambda: ""
        self.asked: list[str] = []

    def sign(self, claims: dict[str, Any]) -> str:
        """What it says, as it says it."""
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.key)
        return signed if self.signs else signed.rpartition(".")[0] + "."

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.asked.append(scope["path"])
        answer: dict[str, Any] = self.itself
        if scope["path"] == "/token":
            answer = {"id_token": self.token(), "token_type": "Bearer"}
        if scope["path"] == "/jwks":
            answer = {"keys": [self.key.as_dict(private=False)]}
        kind = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self.status, "headers": kind})
        await send({"type": "http.response.body", "body": msgspec.json.encode(answer)})


@asynccontextmanager
async def false_provider(public_url: str) -> AsyncGenerator[FalseProvider]:
    """Run it for an application that browsers reach there."""
    port = free_port()
    built = FalseProvider(port, public_url)
    async with serving(built, host="127.0.0.1", port=port):
        yield built
