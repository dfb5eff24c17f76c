"""The report on a console."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from waystation.pipeline.gold.cells import failure_label
from waystation.pipeline.reports.facts import MOST_HOURS, SPAN, Report
from waystation.pipeline.reports.parts import consistency, duration, first_seen, more, number, part


def console_report(report: Report) -> RenderableType:
    """The report as a few tables for a console."""
    if not report.events:
        return Text("The history is empty: `waystation pipeline run` stores events.")
    colour = {True: "bold green", False: "bold red", None: "yellow"}[report.clean]
    verdict = Text(report.verdict, style=colour)
    tenants = [Text(f"{each.sentence(SPAN)}\n") for each in report.tenants]
    parts = (_ledger(report), "", _times(report), "", _failures(report), "", *tenants, verdict)
    return Group(*parts, _checks(report))


def _checks(report: Report) -> Text:
    failed = [str(check) for check in report.checks if not check.passed]
    sentence = consistency(failed, len(report.checks))
    return Text(sentence, style="bold red" if failed else "")


def _ledger(report: Report) -> Table:
    table = _table("Ledger", "queue")
    for head in ("added", "ended", "open", "removed", "lost", "twice", "missed"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("lost ids", overflow="fold")
    for each in report.queues:
        table.add_row(
            Text(f"{each.product}/{each.queue}"),
            *(number(n) for n in (each.acknowledged, each.terminal, each.visible, each.removed)),
            *(_alarm(n) for n in (each.lost, each.duplicated, each.gaps)),
            Text(", ".join(filter(None, (*each.lost_ids, more(len(each.lost_ids), each.lost))))),
        )
    return table


def _times(report: Report) -> Table:
    table = _table(f"Attempts and times of the last {MOST_HOURS // 24} days", "queue")
    heads = ("started", "retried", "failed", "wait\np50", "wait\np95", "run\np50", "run\np95")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for each in report.queues:
        counts = (each.started, each.retried, each.failed)
        times = (*each.wait_ms[:2], *each.run_ms[:2])
        table.add_row(
            Text(f"{each.product}/{each.queue}"),
            *(number(n) for n in counts),
            *(duration(ms) for ms in times),
        )
    return table


def _failures(report: Report) -> RenderableType:
    if not report.failures:
        return Text("No failures.")
    table = _table("Failures", "message")
    for head in ("attempts", "jobs", "retry helped"):
        table.add_column(head, justify="right")
    for row in report.failures[:8]:
        # As plain text, because a message may look like rich's markup.
        said = filter(None, (failure_label(row), first_seen(row, report.deploys)))
        table.add_row(
            Text("\n".join(said)),
            number(row["attempts"]),
            number(row["jobs"]),
            part(row["retry_helps"]),
        )
    if others := more(len(report.failures[:8]), report.failures_in_all):
        table.add_row(Text(others))
    return table


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column(first, overflow="fold", min_width=16)
    return table


def _alarm(value: int | None) -> Text:
    style = "" if value is None else "green" if value == 0 else "bold red"
    return Text(number(value), style=style)
