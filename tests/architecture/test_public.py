"""The public interface: what users import, and from where."""

import inspect

import pytest

import waystation.errors
from tests.support.interface import exported, public_names, shown_types, without_a_sentence
from tools import python
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


def test_every_error_has_one_home_and_can_be_imported_by_users() -> None:
    import_everything()
    kinds = [errors.WaystationError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    # A private one is caught as its public parent.
    public = (kind for kind in kinds if not kind.__name__.startswith("_"))
    ours = {kind for kind in public if kind.__module__.startswith("waystation.")}
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
            if id(kind) not in known:
                hidden.setdefault(kind.__name__, place)
    assert hidden == {}, "export these types, or say in the docstring that it is internal"


@pytest.mark.parametrize("module", PUBLIC)
def test_a_sentence_explains_every_public_name(module: str) -> None:
    silent = [
        each for name, thing in public_names(module) for each in without_a_sentence(name, thing)
    ]
    assert sorted(set(silent)) == []


@pytest.mark.parametrize("package", python.PACKAGES)
def test_a_sentence_explains_every_field_that_the_reference_shows(package: str) -> None:
    silent = [
        f"{name}.{field.name}"
        for name, thing in python.offered(package)
        if python.is_option(thing)
        for field in python.fields(thing)
        if not field.meaning
    ]
    assert silent == []
