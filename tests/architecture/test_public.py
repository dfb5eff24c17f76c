"""The public interface: what users import, and from where."""

import inspect

import pytest

import waystation.errors
from tests.support.interface import exported, public_names, shown_types, without_a_sentence
from tools.reference import import_everything
from waystation.core import errors

PUBLIC = (
    "waystation.bullmq",
    "waystation.sync",
    "waystation.tasks",
    "waystation.routing",
    "waystation.files",
    "waystation.waitingroom",
    "waystation.pipeline",
    "waystation.errors",
    "waystation.testing",
)
HIDDEN: dict[str, set[str]] = {
    # Parameters of classes that the package makes, and of the calls of plain handlers.
    "waystation.bullmq": {"Call", "Calls", "Changed", "Client", "QueueKeys", "QueueRef"},
    "waystation.routing": {"Call", "Calls", "RoutingKeys"},
    "waystation.tasks": {"TaskTerms"},
    "waystation.sync": {"BlockingStore", "Calls", "QueueKeys"},
    # Users get these by way of what they use, and make none.
    "waystation.files": {"Claim", "Durability", "FileKeys"},
    "waystation.waitingroom": {"Bits", "Clock", "RoomStore"},
}
"""Types that public names show although users cannot import them; each is a defect to repair."""

INSIDE_STORE = {"Address", "Client", "Shared"}
"""What `open_store` makes a `Store` of; programs never make one by hand."""


def test_every_error_has_one_home_and_can_be_imported_by_users() -> None:
    import_everything()
    kinds = [errors.WaystationError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    ours = {kind for kind in kinds if kind.__module__.startswith("waystation.")}
    assert {kind.__module__ for kind in ours} == {errors.__name__}
    assert {kind.__name__ for kind in ours} == set(waystation.errors.__all__)


def test_the_drawn_tree_of_errors_is_the_real_one() -> None:
    drawn = (inspect.getdoc(errors) or "").split("WaystationError\n", 1)[1].split("\n\n")[0]
    names = {line.strip("│├└─┐┘ ").split()[0] for line in drawn.splitlines()}
    assert names == set(waystation.errors.__all__) - {"WaystationError"}


def test_an_error_has_one_code_and_no_suffix() -> None:
    kinds = [getattr(errors, name) for name in waystation.errors.__all__]
    assert len({kind.code for kind in kinds}) == len(kinds)
    roots = [kind for kind in kinds if errors.WaystationError in (kind, *kind.__bases__)]
    suffixed = {kind for kind in kinds if kind.__name__.endswith("Error")}
    assert suffixed <= set(roots)


@pytest.mark.parametrize("module", PUBLIC)
def test_users_can_import_every_type_that_a_public_name_shows(module: str) -> None:
    import_everything()
    known = exported(PUBLIC)
    hidden: dict[str, str] = {}
    for name, thing in public_names(module):
        for place, kind in shown_types(name, thing):
            if id(kind) not in known and not (name == "Store" and kind.__name__ in INSIDE_STORE):
                hidden.setdefault(kind.__name__, place)
    allowed = HIDDEN.get(module, set())
    new = {name: place for name, place in hidden.items() if name not in allowed}
    assert new == {}, "export these types from the package, or give the name an underscore"


@pytest.mark.parametrize("module", PUBLIC)
def test_a_sentence_explains_every_public_name(module: str) -> None:
    silent = [
        each for name, thing in public_names(module) for each in without_a_sentence(name, thing)
    ]
    assert sorted(set(silent)) == []
