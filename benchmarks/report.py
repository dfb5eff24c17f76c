"""The common form of all measurements: a value, what it is compared with, and the ratio."""

import os
import platform
from pathlib import Path

import msgspec
from rich.table import Table


class Row(msgspec.Struct, frozen=True):
    """One measurement beside the one it is compared with."""

    what: str
    measured: float
    beside: float

    @property
    def ratio(self) -> float:
        """How many times the other."""
        return self.measured / self.beside


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What one benchmark has to say."""

    title: str
    unit: str
    beside: str
    """What every row is compared with."""
    rows: list[Row]
    remark: str = ""

    def table(self) -> Table:
        """The report as people read it."""
        table = Table(title=self.title, title_justify="left", caption=self.remark or None)
        table.add_column("")
        for heading in (self.unit, self.beside, "ratio"):
            table.add_column(heading, justify="right")
        for row in self.rows:
            table.add_row(
                row.what, f"{row.measured:,.2f}", f"{row.beside:,.2f}", f"{row.ratio:.2f}"
            )
        return table


def machine() -> str:
    """The machine and how busy it is: figures mean little without."""
    now, lately, _ = os.getloadavg()
    parts = (
        _processor(),
        f"{os.cpu_count()} cores",
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        f"load {now:.1f} now and {lately:.1f} over five minutes",
    )
    return ", ".join(part for part in parts if part)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
