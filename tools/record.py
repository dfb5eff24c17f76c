"""Record a command in a terminal, and draw it as a picture that moves: `python -m tools.record`.

Every line of the terminal is drawn once for each text that it had, and a style sheet shows each
for as long as it was there; no script, so a forge shows it in a page. The time is the real one.
"""

import argparse
import codecs
import contextlib
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

from tools.step import ROOT

COLUMNS, ROWS = 96, 24
TICK_S = 0.5
"""How often the terminal is looked at; what came and went in between is not drawn."""
HOLD_S = 6
"""How long the end stands before it begins anew."""
CELL, LINE, PAD = 8.4, 19, 16

_PART = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")
_COLOURS = {"31": "r", "32": "g", "33": "y", "34": "l", "35": "k", "36": "c"}
_OF_256 = {197: "k", 106: "g", 70: "g", 237: "t", 6: "c"}
"""Those of rich's bars and times, among 256."""


class Span(NamedTuple):
    """Text of one look, from a column on."""

    column: int
    text: str
    look: str


class Shown(NamedTuple):
    """A line as it was from one second to another."""

    row: int
    spans: tuple[Span, ...]
    since: float
    until: float | None


class Terminal:
    """What a terminal shows of a program that writes lines, moves up and erases."""

    def __init__(self) -> None:
        self.lines: list[list[tuple[str, str]]] = [[]]
        self._row = self._column = 0
        self._look: frozenset[str] = frozenset()

    def write(self, text: str) -> None:
        """Take what the program has written."""
        for part in _PART.finditer(text):
            if part[0] == "\r":
                self._column = 0
            elif part[0] == "\n":
                self._row, self._column = self._row + 1, 0
                if self._row == len(self.lines):
                    self.lines.append([])
            elif part[2]:
                self._obey(part[2], part[1])
            else:
                self._put(part[0])

    def spans(self, row: int) -> tuple[Span, ...]:
        """A line as it is now, in pieces of one look, without blanks at its end."""
        found: list[Span] = []
        for column, (sign, look) in enumerate(self.lines[row]):
            if found and found[-1].look == look:
                found[-1] = found[-1]._replace(text=found[-1].text + sign)
            else:
                found.append(Span(column, sign, look))
        return tuple(each for each in found if each.text.strip())

    def _put(self, text: str) -> None:
        line = self.lines[self._row]
        line += [(" ", "")] * (self._column + len(text) - len(line))
        look = " ".join(sorted(self._look))
        line[self._column : self._column + len(text)] = [(sign, look) for sign in text]
        self._column += len(text)

    def _obey(self, what: str, numbers: str) -> None:
        match what:
            case "A":
                self._row = max(0, self._row - int(numbers or 1))
            case "K" if numbers == "2":
                self.lines[self._row] = []
            case "K":
                del self.lines[self._row][self._column :]
            case "m":
                self._style(numbers)
            case _:
                pass

    def _style(self, numbers: str) -> None:
        codes = iter((numbers or "0").split(";"))
        for code in codes:
            if code == "0":
                self._look = frozenset()
            elif code == "38":
                next(codes)
                self._colour(_OF_256.get(int(next(codes)), "d"))
            elif code in _COLOURS:
                self._colour(_COLOURS[code])
            elif code in ("1", "2"):
                self._look |= {"b" if code == "1" else "d"}

    def _colour(self, look: str) -> None:
        self._look = (self._look & {"b", "d"}) | {look}


def record(command: list[str]) -> tuple[list[Shown], float]:
    """Run a command in a terminal: each line as it was over time, and how long all took."""
    terminal, begun = Terminal(), time.monotonic()
    present: dict[int, tuple[tuple[Span, ...], float]] = {}
    shown: list[Shown] = []

    def look(now: float) -> None:
        for row in range(len(terminal.lines)):
            spans = terminal.spans(row)
            before, since = present.get(row, ((), 0.0))
            if spans != before:
                if before:
                    shown.append(Shown(row, before, since, now))
                present[row] = spans, now

    terminal.write(f"\x1b[2m$\x1b[0m {_typed(command)}\r\n")
    due = 0.0
    for written in _output(command):
        terminal.write(written)
        if (now := time.monotonic() - begun) >= due:
            look(now)
            due = now + TICK_S
    took = time.monotonic() - begun
    look(took)
    shown += [Shown(row, spans, since, None) for row, (spans, since) in present.items() if spans]
    return shown, took


def _output(command: list[str]) -> Iterator[str]:
    ours, its = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name != "COLORTERM"}
    size = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    program = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=plain | size)
    os.close(its)
    decoder = codecs.getincrementaldecoder("utf-8")()
    # The terminal of a program that has ended cannot be read any more.
    with contextlib.suppress(OSError):
        while got := os.read(ours, 65536):
            yield decoder.decode(got)
    os.close(ours)
    if code := program.wait():
        raise SystemExit(f"{' '.join(command)} ended with {code}: nothing was drawn")


LIGHT = (
    "bg:#fbfaf7 fg:#24292f d:#6b7280 r:#b42318 g:#1a7f37 y:#9a6700 l:#0550ae k:#bf3989 c:#1b7c83"
)
DARK = "bg:#16191f fg:#d7dbe0 d:#8b949e r:#ff7b72 g:#56d364 y:#e3b341 l:#79c0ff k:#f778ba c:#56d4dd"
FONT = "14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def _style() -> Iterator[str]:
    for colours, rule in (
        (f"{LIGHT} t:#d0d7de", "svg{{{}}}"),
        (f"{DARK} t:#30363d", "@media(prefers-color-scheme:dark){{svg{{{}}}}}"),
    ):
        yield rule.format("".join(f"--{each};" for each in colours.split()))
    yield f"text{{font:{FONT};fill:var(--fg);white-space:pre}}.b{{font-weight:bold}}"
    yield from (f".{name}{{fill:var(--{name})}}" for name in "drgylkct")


def draw(shown: list[Shown], took: float, title: str) -> str:
    """The picture."""
    whole = took + HOLD_S
    height, width = ROWS * LINE + 2 * PAD, COLUMNS * CELL + 2 * PAD
    times = {(each.since, each.until) for each in shown}
    names = {each: f"a{number}" for number, each in enumerate(sorted(times, key=str))}
    rules = [*_style(), *(_interval(names[each], *each, whole) for each in names)]
    rules.append(f"@keyframes up{{{_scrolling(shown, whole)}}}")
    rules.append(f"g{{animation:{whole:.1f}s step-end infinite}}#up{{animation-name:up}}")
    # Who wants nothing to move sees the end.
    rules.append(f"@media(prefers-reduced-motion:reduce){{g{{animation-delay:-{took + 1:.1f}s;")
    rules.append("animation-play-state:paused}}")
    groups = "".join(
        f'<g style="animation-name:{names[when]}">'
        + "".join(_text(each) for each in shown if (each.since, each.until) == when)
        + "</g>\n"
        for when in names
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">'
        f"<title>{escape(title)}</title><style>{''.join(rules)}</style>"
        f'<rect width="100%" height="100%" rx="10" style="fill:var(--bg);stroke:var(--t)"/>'
        f'<svg y="{PAD}" width="{width:.0f}" height="{ROWS * LINE}">'
        f'<g id="up">\n{groups}</g></svg></svg>\n'
    )


def _interval(name: str, since: float, until: float | None, whole: float) -> str:
    hidden, visible = "{visibility:hidden}", "{visibility:visible}"
    last = f"{100 * until / whole:.2f}%,to{hidden}" if until is not None else f"to{visible}"
    return f"@keyframes {name}{{from{hidden}{100 * since / whole:.2f}%{visible}{last}}}"


def _scrolling(shown: list[Shown], whole: float) -> str:
    """The picture moves up when a line comes that is below it."""
    steps, up = ["from{transform:none}"], 0
    for each in sorted(shown, key=lambda each: each.since):
        if (more := each.row + 1 - ROWS) > up:
            up = more
            steps.append(f"{100 * each.since / whole:.2f}%{{transform:translateY(-{up * LINE}px)}}")
    return "".join([*steps, f"to{{transform:translateY(-{up * LINE}px)}}"])


def _text(line: Shown) -> str:
    spans = "".join(
        f'<tspan x="{PAD + span.column * CELL:.0f}"'
        + (f' class="{span.look}"' if span.look else "")
        + f' textLength="{len(span.text) * CELL:.0f}">{escape(span.text)}</tspan>'
        for span in line.spans
    )
    return f'<text y="{line.row * LINE + 14}">{spans}</text>'


def _typed(command: list[str]) -> str:
    return " ".join([Path(command[0]).name, *command[1:]])


def main() -> int:
    """Record what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.record", description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures" / "demo.svg")
    parser.add_argument("command", nargs="*", default=["waystation", "demo"])
    asked = parser.parse_args()
    shown, took = record(asked.command)
    asked.to.write_text(draw(shown, took, _typed(asked.command)), encoding="utf-8")
    print(f"{asked.to}: {took:.0f} s, {asked.to.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
