"""Groups of tasks: which group a call belongs to, by its arguments."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from waystation.bullmq import Group, JobKeywords
from waystation.bullmq.options import group_of
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.core.failure import message_of
from waystation.tasks.dependencies import Dependency

if TYPE_CHECKING:
    from waystation.tasks.keywords import TaskKeywords

GroupOf: TypeAlias = Callable[..., Group | str | None]
"""Says to which group a call belongs: it gets those of the call's arguments that it names."""


def group_of_calls(given: "TaskKeywords") -> tuple[JobKeywords, GroupOf | None]:
    """The options of a job among those of a task, and the function that gives each its group."""
    group = given.get("group")
    if not callable(group):
        return cast(JobKeywords, given), None
    return cast(JobKeywords, {**given, "group": None}), group


class GroupRule:
    """The group of each call of one task."""

    def __init__(
        self, task: str, function: GroupOf, parameters: Iterable[inspect.Parameter]
    ) -> None:
        arguments = [each for each in parameters if not isinstance(each.default, Dependency)]
        self._task = task
        self._function = function
        self._names = _wanted(task, function, [each.name for each in arguments])
        self._defaults = {
            each.name: each.default for each in arguments if each.default is not each.empty
        }

    def group(self, given: Mapping[str, Any]) -> Group | None:
        """The group of a call with these arguments; None when it belongs to none."""
        arguments = self._defaults | dict(given)
        try:
            # Whatever a function returns, however it is annotated.
            found: Any = self._function(**{name: arguments[name] for name in self._names})
            if found is None or isinstance(found, Group | str):
                return None if found is None else group_of(found)
        except Exception as error:
            raise InvalidInput(
                f"the group of {self._task} cannot be found for these arguments: "
                f"{message_of(error)}"
            ) from error
        raise InvalidInput(
            f"the group of {self._task} must be an id, a Group or None, got {found!r}"
        )


def _wanted(task: str, function: GroupOf, arguments: list[str]) -> list[str]:
    """The arguments that such a function names."""
    if inspect.iscoroutinefunction(function):
        raise InvalidOption(f"the group of {task} must come from a plain function")
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise InvalidOption(
            f"the group of {task} must come from a function that names its parameters, "
            f"got {cast(Any, function)!r}"
        ) from None
    names: list[str] = []
    for each in parameters:
        if each.kind is each.VAR_KEYWORD:
            return arguments
        if each.name in arguments and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            names.append(each.name)
        elif each.default is each.empty:
            raise InvalidOption(
                f"the group of {task} asks for {each.name}, which is none of its arguments: "
                f"{', '.join(arguments) or 'it has none'}"
            )
    return names
