"""HTTP requests to an identity provider."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import httpx2

TIMEOUT_S = 5.0
"""How long the whole answer may take."""
MOST = 1_000_000
"""Bytes of an answer that are read."""


async def ask(
    url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Get what is there, or post a form; return the status and the JSON object of the answer."""
    method = "GET" if form is None else "POST"
    wanted = {"Accept": "application/json", **(headers or {})}
    # A new client each time: people sign in seldom, and no proxy of the environment is used.
    client = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            client,
            client.stream(method, url, data=form, headers=wanted) as answer,
        ):
            body = b""
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MOST:
                    raise ProviderAway("the identity provider's answer is too long")
            status = answer.status_code
    except (httpx2.HTTPError, OSError) as error:
        raise ProviderAway("the identity provider does not answer; try again later") from error
    try:
        found = httpx2.Response(status, content=body).json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ProviderAway(f"the identity provider answers {status} without a JSON object")
    return status, cast("dict[str, Any]", found)


class SignInRefused(Exception):
    """Somebody is not let in; the words are for them."""

    status = 403
    page = ""
    """The page that the sign-in began on, as far as that is known."""


class SignInUnknown(SignInRefused):
    """What came back belongs to no sign-in that began in this browser."""

    status = 400


class ProviderAway(SignInRefused):
    """The provider does not answer, or not as it should."""

    status = 502
