"""`waystation doctor`: checks of the server and of this machine."""

import asyncio
import platform
import sys
from collections.abc import Iterable
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waystation.bullmq.redis.keys import QueueKeys
from waystation.bullmq.settings import BullmqSettings
from waystation.core.app import compose
from waystation.core.app.commands import AsJson
from waystation.core.app.invocation import FAILED, loaded
from waystation.core.app.settings import StoreSettings
from waystation.core.errors import InvalidOption, StoreError, StoreUnsuitable
from waystation.core.settings.load import Settings
from waystation.core.store.connection import Store
from waystation.core.store.embedded import server_binary
from waystation.core.store.server import SAFE_POLICY, Facts, facts, require_suitable, unsuitable
from waystation.files.redis.keys import FileKeys
from waystation.files.settings import FilesSettings, layout
from waystation.pipeline.spark.java import OLDEST, examined, programs
from waystation.routing.redis.keys import RoutingKeys
from waystation.routing.settings import RoutingSettings


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """It works, but somebody should know."""
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True):
    """The answer of one check; when all is not well, the sentence says what to do."""

    about: str
    verdict: Verdict
    sentence: str


def ok(about: str, sentence: str) -> Finding:
    """All is well."""
    return Finding(about, Verdict.OK, sentence)


def warn(about: str, sentence: str) -> Finding:
    """It works, but somebody should know."""
    return Finding(about, Verdict.WARN, sentence)


def fail(about: str, sentence: str) -> Finding:
    """It does not work until somebody acts."""
    return Finding(about, Verdict.FAIL, sentence)


class Examination(msgspec.Struct):
    """The findings of all checks, and the error that makes the store unusable, if any."""

    findings: list[Finding]
    trouble: StoreError | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst that was found."""
        return max((finding.verdict for finding in self.findings), key=list(Verdict).index)


async def examine(settings: Settings) -> Examination:
    """Check the machine and the store that the settings name."""
    examination = Examination([python(), embedded(needed=settings[StoreSettings].url is None)])
    try:
        async with await compose.reach(settings[StoreSettings]) as store:
            examination.findings += server(await facts(store.redis))
            examination.findings += _hash_tags(store, settings)
            await require_suitable(store.redis)
    except StoreError as error:
        examination.trouble = error
        if examination.verdict is not Verdict.FAIL:
            examination.findings.append(fail("store", str(error)))
    examination.findings += [await java(programs()), spark()]
    return examination


def _hash_tags(store: Store, settings: Settings) -> list[Finding]:
    """The products that cannot be used on this cluster as the settings are."""
    products = {
        "bullmq": QueueKeys("queue", prefix=settings[BullmqSettings].prefix),
        "routing": RoutingKeys(settings[RoutingSettings].namespace),
        "files": FileKeys(layout(settings[FilesSettings])),
    }
    findings: list[Finding] = []
    for name, keys in products.items():
        try:
            store.require_one_slot(keys)
        except InvalidOption as error:
            findings.append(warn(name, str(error)))
    return findings


app = typer.Typer(add_completion=False, rich_markup_mode=None)

_COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}


@app.command()
def doctor(
    context: typer.Context,
    as_json: AsJson = False,
) -> None:
    """Check the server and this machine, and say what to do.

    Ends with 0 when all is well or only worth a warning, with 1 when something failed, with 2 when
    the store must not be used, and with 69 when it is away.
    """
    examination = asyncio.run(examine(loaded(context)))
    if as_json:
        typer.echo(_json(examination))
    elif sys.stdout.isatty():
        Console().print(_table(examination.findings))
    else:
        typer.echo("\n".join(map(_line, examination.findings)))
    if examination.trouble:
        raise examination.trouble
    if examination.verdict is Verdict.FAIL:
        raise typer.Exit(FAILED)


def _json(examination: Examination) -> str:
    page = {"verdict": examination.verdict, "findings": examination.findings}
    return msgspec.json.format(msgspec.json.encode(page)).decode()


def _line(finding: Finding) -> str:
    return f"{finding.verdict:<4}  {finding.about:<12}  {finding.sentence}"


def _table(findings: list[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column()
    table.add_column(overflow="fold")
    for finding in findings:
        verdict = Text(finding.verdict, style=_COLOURS[finding.verdict])
        # As plain text, because a sentence may hold `[spark]`, which is markup to rich.
        table.add_row(verdict, Text(finding.about), Text(finding.sentence))
    return table


MOST_SKEW_MS = 1_000
"""Leases outlive a skew well above this, but times shown to people begin to look wrong."""
MOST_FULL = 0.8

_MEGABYTE = 1 << 20


def server(found: Facts) -> list[Finding]:
    """Say what a server is and what should be changed on it."""
    return [_kind(found), _eviction(found), _persistence(found), _clock(found), _memory(found)]


def _kind(found: Facts) -> Finding:
    shape = " cluster" if found.cluster else ""
    name = f"{found.kind.capitalize()} {found.version}{shape}, {found.round_trip_ms:.1f} ms away"
    complaint = unsuitable(found)
    if complaint and found.policy == SAFE_POLICY:
        return fail("server", f"{name}: {complaint}")
    return ok("server", name)


def _eviction(found: Facts) -> Finding:
    if found.policy == SAFE_POLICY:
        return ok("eviction", f"{SAFE_POLICY}: the server refuses new work rather than losing old")
    return fail("eviction", unsuitable(found) or found.policy)


def _persistence(found: Facts) -> Finding:
    if found.append_only:
        return ok("persistence", "every write goes to a log on disk")
    remedy = "run `CONFIG SET appendonly yes` and keep it in the server's configuration"
    if found.snapshots:
        return warn("persistence", f"a crash loses all since the last snapshot; {remedy}")
    return warn("persistence", f"a restart loses everything; {remedy}")


def _clock(found: Facts) -> Finding:
    skew = f"the server's clock is {abs(found.clock_skew_ms)} ms "
    skew += "ahead of ours" if found.clock_skew_ms >= 0 else "behind ours"
    # Part of what seems to be skew may be the time that the answer took.
    if abs(found.clock_skew_ms) <= MOST_SKEW_MS + found.round_trip_ms / 2:
        return ok("clock", skew)
    return warn("clock", f"{skew}; let both machines set their clocks by NTP")


def _memory(found: Facts) -> Finding:
    used = f"{found.memory_used / _MEGABYTE:.0f} MB used"
    if not found.memory_limit:
        return ok("memory", f"{used}; no limit but what the machine has")
    share = f"{used} of {found.memory_limit / _MEGABYTE:.0f} MB"
    if found.memory_used < MOST_FULL * found.memory_limit:
        return ok("memory", share)
    if found.memory_used >= found.memory_limit:
        return fail("memory", f"{share}: the server refuses new work; raise maxmemory")
    return warn("memory", f"{share}; raise maxmemory before the server refuses new work")


async def java(programs: Iterable[Path]) -> Finding:
    """Find a Java that Spark can run on; the first that is new enough counts."""
    too_old = ""
    for program in programs:
        found = await asyncio.to_thread(examined, program)
        if found is None:
            continue
        if found.is_new_enough:
            return ok("java", f"Java {found.version} at {program}")
        too_old = too_old or f"Java {found.version} at {program} is too old"
    return warn(
        "java",
        f"{too_old or 'no Java was found'}; the pipeline wants {OLDEST} or newer: "
        "install one or run pip install 'waystation[spark]'",
    )


def python() -> Finding:
    """Say which Python this is."""
    return ok("python", f"{platform.python_implementation()} {platform.python_version()}")


def spark() -> Finding:
    """Check for Spark, which only the pipeline needs."""
    try:
        return ok("spark", f"Spark {version('pyspark')}")
    except PackageNotFoundError:
        return warn(
            "spark",
            "Spark is not installed; history and statistics need it: "
            "run pip install 'waystation[spark]'",
        )


def embedded(*, needed: bool) -> Finding:
    """Check for the server that is started when the settings name none."""
    try:
        return ok("embedded", f"a server can be started from {server_binary()}")
    except StoreUnsuitable as missing:
        return (fail if needed else warn)("embedded", str(missing))
