"""The web pages of the console, and the sign-in with an identity provider."""

from functools import cache
from importlib.resources import files

from waystation.console.context import Console
from waystation.core.http.endpoints import endpoint
from waystation.core.http.exchange import NO_STORE, Answer, Headers, Request
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.oidc import Provider, SignInRefused
from waystation.core.operators.oidc_settings import CALLBACK
from waystation.core.operators.sign_in import ProviderSignIn

KINDS = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Pages:
    """One page and what belongs to it; everything it shows comes from the API."""

    def __init__(self, console: Console, provider: Provider | None) -> None:
        self._provider = provider
        self._way = ProviderSignIn(
            console.store, console.clock, console.cookies, console.operators, provider
        )

    @endpoint("GET /", gives={200: None})
    async def index(self, request: Request) -> Answer:
        """The console."""
        return Answer(200, _assets()["index.html"], KINDS["html"], _headers())

    @endpoint("GET /assets/{file}", gives={200: None})
    async def asset(self, request: Request) -> Answer:
        """A style sheet, script or picture of the console."""
        return _asset(request.slots["file"])

    @endpoint("GET /assets/views/{file}", gives={200: None})
    async def view(self, request: Request) -> Answer:
        """The script of one view."""
        return _asset(f"views/{request.slots['file']}")

    @endpoint("GET /sign-in/provider", gives={200: None, 303: None})
    async def set_out(self, request: Request) -> Answer:
        """Sign in with the identity provider."""
        self._way.require_provider()
        try:
            where, cookie = await self._way.set_out(request, "console")
        except SignInRefused:
            return _go("/#/sign-in/refused")
        return _go(where, [cookie])

    @endpoint(f"GET {CALLBACK}", gives={303: None})
    async def come_back(self, request: Request) -> Answer:
        """Return from the identity provider."""
        try:
            _, cookies = await self._way.come_back(request)
        except SignInRefused:
            return _go("/#/sign-in/refused")
        return _go("/", cookies)


@cache
def _assets() -> dict[str, bytes]:
    folder = files("waystation.console").joinpath("pages")
    shared = files("waystation.core").joinpath("pages")
    found = {each.name: each for each in (*folder.iterdir(), *shared.iterdir())}
    found |= {f"views/{each.name}": each for each in folder.joinpath("views").iterdir()}
    return {
        name: each.read_bytes() for name, each in found.items() if name.rpartition(".")[2] in KINDS
    }


def _asset(name: str) -> Answer:
    body = _assets().get(name)
    if body is None or name.endswith(".html"):
        raise Problem(404, Code.NOT_FOUND, "there is nothing here")
    return Answer(200, body, KINDS[name.rpartition(".")[2]], _headers())


def _headers() -> Headers:
    return [
        (b"cache-control", b"no-cache"),
        (b"content-security-policy", POLICY),
        (b"x-frame-options", b"DENY"),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"x-robots-tag", b"noindex"),
    ]


def _go(where: str, headers: Headers | None = None) -> Answer:
    return Answer(303, headers=[(b"location", where.encode("latin-1")), NO_STORE, *(headers or [])])
