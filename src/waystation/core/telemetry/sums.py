"""The numbers of several processes as one page."""

from collections.abc import Iterable


def summed(pages: Iterable[bytes], *, alike: str = "") -> bytes:
    """Add up pages in Prometheus' text format, sample by sample.

    Gauges whose names begin with `alike` say the same in every process: the highest counts.
    """
    heads: dict[str, dict[str, None]] = {}
    samples: dict[str, dict[str, float]] = {}
    for page in pages:
        family = ""
        same = set[str]()
        for line in page.decode().splitlines():
            if line.startswith("#"):
                family = line.split()[2]
                heads.setdefault(family, {})[line] = None
                if alike and family.startswith(alike) and line.endswith(" gauge"):
                    same.add(family)
            elif line:
                name, _, value = line.rpartition(" ")
                values = samples.setdefault(family, {})
                before = values.get(name, 0.0)
                values[name] = (
                    max(before, float(value)) if family in same else before + float(value)
                )
    lines: list[str] = []
    for family, head in heads.items():
        lines += head
        lines += [f"{name} {value}" for name, value in samples.get(family, {}).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def without_gauges(page: bytes) -> bytes:
    """What a process that has ended leaves behind: counters do not go back, a gauge is over."""
    kept: list[str] = []
    held_back: list[str] = []
    is_gauge = False
    for line in page.decode().splitlines():
        if line.startswith("# HELP"):
            held_back, is_gauge = [line], False
        elif line.startswith("# TYPE"):
            is_gauge = line.endswith(" gauge")
            kept += [] if is_gauge else [*held_back, line]
        elif not is_gauge:
            kept.append(line)
    return "".join(f"{line}\n" for line in kept).encode()
