"""The reference page of the console's HTTP API."""

from waystation.console.actions.kinds import ACTIONS
from waystation.console.app import App
from waystation.console.routes.failures import Failures
from waystation.console.routes.history import HistoryRoutes
from waystation.console.routes.jobs import Jobs
from waystation.console.routes.live import Live
from waystation.console.routes.operations import Operations
from waystation.console.routes.output import Output
from waystation.console.routes.pages import Pages
from waystation.console.routes.queues import Queues
from waystation.console.routes.rooms import RoomRoutes
from waystation.console.routes.searching import Searching
from waystation.console.routes.webhooks import HookRoutes
from waystation.core.http import reference
from waystation.core.operators.routes import OperatorRoutes

PARTS: dict[str, tuple[type, ...]] = {
    "Queues": (Queues,),
    "Jobs": (Jobs, Searching),
    "Failures": (Failures,),
    "The history": (HistoryRoutes,),
    "Live changes": (Live, Output),
    "Waiting rooms": (RoomRoutes,),
    "Webhooks": (HookRoutes,),
    "The store and the console": (Operations, App),
    "Operators": (OperatorRoutes,),
    "Pages": (Pages,),
}
_INTRO = """What the console answers. `/openapi.json` says the same, field by field.

*Needs* is the role of whoever asks: viewer, operator or admin; each may do what those before it
may. With `console.sign_in` a program shows its key as `Authorization: Bearer`, a browser the cookie
of its sign-in. Without it, only this machine is answered, in the role of `console.local_role`.
Every error is answered as `application/problem+json`, with one name for it in `code`.

`product` is bullmq, routing or files; names and ids in a path are percent-encoded, slashes
included."""


def page() -> str:
    """The page as Markdown."""
    rows = [
        f"| `{name}` | {each.scope} | {each.summary}{_CONFIRMED if each.confirmed else ''} |"
        for name, each in ACTIONS.items()
    ]
    actions = ["## Actions", "", "| action | needs | what it does |", "|---|---|---|", *rows]
    return reference.page("HTTP of the console", _INTRO, PARTS) + "\n" + "\n".join(actions) + "\n"


_CONFIRMED = " `confirm` must be the name of the queue."
