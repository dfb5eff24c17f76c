"""The public interface: what users import, and from where."""

import inspect

import waystation.errors
from tools.reference import import_everything
from waystation.core import errors


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
