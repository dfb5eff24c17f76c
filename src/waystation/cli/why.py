"""`waystation why`: one sentence on why a job, a file, a visitor or a queue does not move."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from waystation.core.app.commands import AsJson, on_store

if TYPE_CHECKING:
    from waystation.console.why import Answer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def why(
    context: typer.Context,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="JOB|FILE|VISITOR|QUEUE",
            help="An id, a path, or the name of a queue, a type of job, a priority or a room; "
            "QUEUE/ID is the job in that queue. After -- it may begin with a dash.",
        ),
    ],
    queue: Annotated[str | None, typer.Option(help="Look only into this queue.")] = None,
    product: Annotated[
        str | None, typer.Option(help="Only bullmq, routing, files or waitingroom.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say in one sentence why a job, a file, a visitor or a queue does not move.

    What the sentence rests on follows it. Ends with 1 when nothing of that name is known.
    """
    answers = _answers(context, subject, queue=queue, product=product)
    if as_json:
        _print_json(answers)
    else:
        for answer in answers:
            _print(answer, is_one_of_many=len(answers) > 1)
    if not any(answer.product for answer in answers):
        raise typer.Exit(1)


def _answers(
    context: typer.Context, subject: str, *, queue: str | None, product: str | None
) -> "list[Answer]":
    # Imported here and below, so that help does not load what it does not need.
    from waystation.cli.places import places_of
    from waystation.console.past.history import History
    from waystation.console.why import why
    from waystation.core.app.invocation import loaded
    from waystation.pipeline.settings import PipelineSettings

    settings = loaded(context)
    # As a job has the path of a file whose name is no text.
    subject = os.fsencode(subject).decode(errors="backslashreplace")
    return on_store(
        settings,
        lambda store: why(
            store,
            subject,
            queue=queue,
            product=product,
            places=places_of(settings),
            history=History(str(settings[PipelineSettings].history)),
        ),
    )


def _print(answer: "Answer", *, is_one_of_many: bool) -> None:
    typer.echo(answer.sentence)
    whose = {"queue": answer.queue} if is_one_of_many and answer.queue else {}
    for name, value in (whose | answer.evidence).items():
        typer.echo(f"  {name:<16}  {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(value)


def _print_json(answers: "list[Answer]") -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(answers), indent=2).decode())
