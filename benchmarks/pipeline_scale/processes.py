"""Processor time of a process and of all below it, those that have ended included."""

import os
from collections import defaultdict
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of processor time so far."""
    below: dict[int, list[int]] = defaultdict(list)
    spent: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            below[int(fields[1])].append(int(place.name))
            # In user and in system mode, its own and that of children it has waited for.
            spent[int(place.name)] = sum(map(int, fields[11:15]))
    total, found = 0, [pid]
    while found:
        each = found.pop()
        total += spent.get(each, 0)
        found += below[each]
    return total / _TICKS
