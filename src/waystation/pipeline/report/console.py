"""The report on a console."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waystation.pipeline.gold.failures import label
from waystation.pipeline.report.facts import Facts
from waystation.pipeline.report.words import duration, number, part, sums


def shown(facts: Facts) -> RenderableType:
    """The report in a few tables."""
    if not facts.events:
        return Text("Nothing is kept yet: `waystation pipeline run` keeps what the queues tell.")
    colour = {True: "bold green", False: "bold red", None: "yellow"}[facts.clean]
    said = Text(facts.verdict, style=colour)
    return Group(
        _ledger(facts), "", _times(facts), "", _failures(facts), "", said, checks_of(facts)
    )


def checks_of(facts: Facts) -> Text:
    """Whether the tables add up."""
    ill = [str(check) for check in facts.checks if not check.well]
    return Text(sums(ill, len(facts.checks)), style="bold red" if ill else "")


def _ledger(facts: Facts) -> Table:
    table = _table("The ledger", "queue")
    for head in ("came", "ended", "there", "removed", "lost", "twice", "unseen"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("lost ids", overflow="fold")
    for each in facts.queues:
        table.add_row(
            Text(f"{each.line}/{each.queue}"),
            *(number(n) for n in (each.acknowledged, each.terminal, each.visible, each.removed)),
            *(_alarm(n) for n in (each.lost, each.duplicated, each.gaps)),
            Text(", ".join(each.lost_ids)),
        )
    return table


def _times(facts: Facts) -> Table:
    table = _table("How much, and how long", "queue")
    heads = ("taken", "again", "failed", "wait p50", "wait p95", "run p50", "run p95")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for each in facts.queues:
        counts = (each.started, each.retried, each.failed)
        times = (*each.wait[:2], *each.run[:2])
        table.add_row(
            Text(f"{each.line}/{each.queue}"),
            *(number(n) for n in counts),
            *(duration(ms) for ms in times),
        )
    return table


def _failures(facts: Facts) -> RenderableType:
    if not facts.failures:
        return Text("Nothing failed.")
    table = _table("Failures", "what it says")
    for head in ("attempts", "jobs", "retrying helped"):
        table.add_column(head, justify="right")
    for row in facts.failures[:8]:
        # As plain text, because a reason may hold what is markup to rich.
        table.add_row(
            Text(label(row)),
            number(row["attempts"]),
            number(row["subjects"]),
            part(row["retry_helps"]),
        )
    return table


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(first, overflow="fold", min_width=16)
    return table


def _alarm(value: int | None) -> Text:
    style = "" if value is None else "green" if value == 0 else "bold red"
    return Text(number(value), style=style)
