"""The reference page of the HTTP API."""

from waystation.core.http import reference
from waystation.core.operators.routes import OperatorRoutes
from waystation.waitingroom.http.admin.alarms import AlarmAdmin
from waystation.waitingroom.http.admin.controls import Controls
from waystation.waitingroom.http.admin.events import EventAdmin
from waystation.waitingroom.http.admin.invitations import InvitationAdmin
from waystation.waitingroom.http.admin.overview import Overview
from waystation.waitingroom.http.admin.reports import Reports
from waystation.waitingroom.http.admin.rooms import RoomAdmin
from waystation.waitingroom.http.admin.signing_keys import SigningKeyAdmin
from waystation.waitingroom.http.admin.themes import ThemeAdmin
from waystation.waitingroom.http.admin.webhooks import WebhookAdmin
from waystation.waitingroom.http.app import App
from waystation.waitingroom.http.pages.draw import DrawPage
from waystation.waitingroom.http.pages.operate import OperatorPages
from waystation.waitingroom.http.pages.routes import Pages
from waystation.waitingroom.http.pages.sign_in import SignIn
from waystation.waitingroom.http.sites.entries import Entries
from waystation.waitingroom.http.sites.proxies import ProxyRoutes
from waystation.waitingroom.http.sites.sessions import Sessions
from waystation.waitingroom.http.visitors.challenge import Challenges
from waystation.waitingroom.http.visitors.fairness import Fairness
from waystation.waitingroom.http.visitors.notify import Notify
from waystation.waitingroom.http.visitors.routes import Visitors
from waystation.waitingroom.http.visitors.snapshots import Snapshots
from waystation.waitingroom.http.visitors.streams import Streams

PARTS: dict[str, tuple[type, ...]] = {
    "Visitors": (Visitors, Notify, Challenges, Snapshots, Streams, Fairness),
    "Sessions": (Sessions,),
    "Proxies and middleware": (ProxyRoutes, Entries),
    "Rooms": (RoomAdmin,),
    "The hand on a running room": (Controls,),
    "Numbers": (Overview, Reports, AlarmAdmin),
    "Events": (EventAdmin,),
    "Invitations and access codes": (InvitationAdmin,),
    "How the waiting page looks": (ThemeAdmin,),
    "Webhooks": (WebhookAdmin,),
    "Operators": (OperatorRoutes,),
    "Signing keys": (SigningKeyAdmin,),
    "Operations": (App,),
    "Pages": (Pages, DrawPage, OperatorPages, SignIn),
}
_INTRO = """What the waiting room answers. `/openapi.json` says the same, field by field.

*Needs* is what has to be shown: a `ticket` or a `session` is what a visitor was given, as a cookie
or as `Authorization: Bearer` or `Wr-Session`; the others are roles of an operator's key, shown as
`Authorization: Bearer` or by the cookie of somebody who signed in. A key may do what the roles
before it may: viewer, operator, admin. Every error is answered as `application/problem+json`,
with one name for it in `code`."""


def page() -> str:
    """The page as Markdown."""
    return reference.page("HTTP", _INTRO, PARTS)
