"""Classes for code that waits, written from those for an event loop.

A twin has the methods of its model, without `async`: each forwards to `self._do("name", …)`, which
its hand-written base class makes, and keeps parameters, types and words. A method that the base has
is written by hand, because it does something else than to forward. Files are read and nothing is
imported, so that a stale twin is no obstacle to writing it anew.
"""

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from tools.generated import SOURCE, module

N = TypeVar("N", bound=ast.AST)


class Twin(NamedTuple):
    """One class to write."""

    name: str
    model: str
    """The class for a loop, by module and name."""
    base: str
    """The hand-written class that it inherits, which describes it, or else its model does."""


_PART = "waystation.sync.client:Part"
TWINS = {
    "bullmq/sync_job.py": (
        "SyncJob: the job as a plain `def` handler gets it, with blocking calls.",
        [
            Twin(
                "SyncJob",
                "waystation.bullmq.job:Job",
                "waystation.bullmq.blocking_job:BlockingJob",
            )
        ],
    ),
    "sync/parts.py": (
        "The parts of a queue, for code that waits: schedulers, limits, dead letters, groups.",
        [
            Twin("Schedulers", "waystation.bullmq.schedulers:Schedulers", _PART),
            Twin("Limits", "waystation.bullmq.limits:Limits", _PART),
            Twin("DeadLetters", "waystation.bullmq.dead_letters:DeadLetters", _PART),
            Twin("Groups", "waystation.bullmq.groups:Groups", _PART),
        ],
    ),
    "sync/queue.py": (
        "Queue, for code that waits: adds jobs, looks them up, and administers them.",
        [Twin("Queue", "waystation.bullmq.queue:Queue", "waystation.sync.bound:BlockingQueue")],
    ),
    "sync/flows.py": (
        "Trees of jobs, for code that waits.",
        [
            Twin(
                "FlowProducer",
                "waystation.bullmq.flows:FlowProducer",
                "waystation.sync.bound:BlockingFlows",
            )
        ],
    ),
}
ELSEWHERE = {
    "Job": "waystation.bullmq.sync_job:SyncJob",
    "FlowJob": "waystation.sync.bound:FlowJob",
}
"""What a twin returns instead of what its model does."""


def modules() -> dict[Path, str]:
    """The text of every module of twins by its file."""
    written: dict[Path, str] = {}
    for place, (title, twins) in TWINS.items():
        file = SOURCE / "waystation" / place
        code = [_class(twin) for twin in twins]
        heads = {line for twin in twins for line in _heads(twin)}
        aliases = [line for twin in twins for line in _aliases(twin, "".join(code))]
        made = (*sorted(heads), *aliases, *code)
        written[file] = module(file, title, "the code for a loop", *made)
    return written


def _class(twin: Twin) -> str:
    model, base = _class_at(twin.model), _class_at(twin.base)
    by_hand = {each.name for each in base.body if isinstance(each, ast.FunctionDef)}
    methods = [_method(each) for each in _public(model) if each.name not in by_hand]
    words = ast.get_docstring(model if twin.base == _PART else base) or ""
    words += "\n" * ("\n" in words)
    inherited = ast.unparse(model.bases[0]) if model.bases else ""
    brackets = inherited[inherited.index("[") :] if "[" in inherited else ""
    lines = ["\n\n@checked", f"class {twin.name}({base.name}{brackets}):", f'    """{words}"""\n']
    if any(isinstance(each, ast.Assign) and _defined(each) == "__slots__" for each in model.body):
        lines.append("    __slots__ = ()\n")
    return "\n".join([*lines, *(textwrap.indent(ast.unparse(each), "    ") for each in methods)])


def _tree(place: str) -> list[ast.stmt]:
    home = place.partition(":")[0].replace(".", "/")
    return ast.parse((SOURCE / f"{home}.py").read_text()).body


def _class_at(place: str) -> ast.ClassDef:
    name = place.partition(":")[2]
    classes = (each for each in _tree(place) if isinstance(each, ast.ClassDef))
    return next(each for each in classes if each.name == name)


def _public(model: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for each in model.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.decorator_list:
            is_internal = (ast.get_docstring(each) or "").startswith("Internal:")
            if not each.name.startswith("_") and not is_internal:
                yield each


def _method(model: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    """The same signature and words, with a body that forwards."""
    taken = model.args
    passed = [each.arg for each in taken.args[1:]]
    passed += [f"*{taken.vararg.arg}"] if taken.vararg else []
    passed += [f"{each.arg}={each.arg}" for each in taken.kwonlyargs]
    passed += [f"**{taken.kwarg.arg}"] if taken.kwarg else []
    (body,) = ast.parse(f"return self._do({', '.join([repr(model.name), *passed])})").body
    twin = ast.FunctionDef(model.name, taken, [model.body[0], body], [], model.returns, lineno=0)
    return _renamed(twin)


def _renamed(node: N) -> N:
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in ELSEWHERE:
            each.id = ELSEWHERE[each.id].partition(":")[2]
    return node


def _heads(twin: Twin) -> Iterator[str]:
    """All that a signature may name; what none does is taken out again."""
    home = twin.model.partition(":")[0]
    for place in (twin.base, *ELSEWHERE.values(), "waystation.core.options:checked"):
        if place.partition(":")[2] != twin.name:
            yield f"from {place.replace(':', ' import ')}"
    known = {*ELSEWHERE, twin.name, twin.base.partition(":")[2]}
    for node in _tree(twin.model):
        match node:
            case ast.Import() | ast.ImportFrom():
                node.names = [each for each in node.names if each.name not in known]
                yield ast.unparse(node) if node.names else ""
            case ast.AnnAssign() | ast.Assign() | ast.ClassDef():
                name = _defined(node)
                yield "" if name in known or name.startswith("_") else f"from {home} import {name}"
            case _:
                pass


def _aliases(twin: Twin, code: str) -> Iterator[str]:
    """Short names of types that are the model's own, where a signature has them."""
    for node in _tree(twin.model):
        if isinstance(node, ast.AnnAssign) and (name := _defined(node)).startswith("_"):
            yield ast.unparse(_renamed(node)) if name in code else ""


def _defined(node: ast.AnnAssign | ast.Assign | ast.ClassDef) -> str:
    if isinstance(node, ast.ClassDef):
        return node.name
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return target.id if isinstance(target, ast.Name) else "_"
