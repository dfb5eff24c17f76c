"""Texts that come from the code: reference pages, tours, modules, manifests.

python -m tools.pages           write them
python -m tools.pages --check   say which are not what the code says
"""

import sys
from pathlib import Path

from tools import keywords, scripts, stubs, twins
from tools.generated import SOURCE, is_made

DOCS = Path(__file__).resolve().parents[1] / "docs"


def pages() -> dict[Path, str]:
    """Every generated text by its file."""
    # These import the whole product, which needs its generated modules.
    from tools import deploy, reference, tour

    written = {**reference.pages(), **tour.pages()}
    return {
        **{DOCS / name: text for name, text in written.items()},
        **modules(),
        **deploy.manifests(),
    }


def modules() -> dict[Path, str]:
    """Every generated module by its file."""
    return {**scripts.modules(), **keywords.modules(), **twins.modules(), **stubs.modules()}


def stale() -> list[Path]:
    """The pages that are not what the code says, or that nobody generates any more."""
    wanted = pages()
    present = {file for folder in ("reference", "tour") for file in (DOCS / folder).glob("*.md")}
    present |= {file for file in SOURCE.rglob("*.py*") if is_made(file)}
    changed = {
        file for file, text in wanted.items() if not file.exists() or file.read_text() != text
    }
    return sorted(changed | (present - wanted.keys()))


def main() -> int:
    """Write the pages, or only compare them."""
    if "--check" not in sys.argv:
        for file, text in modules().items():
            file.write_text(text)
    late = stale()
    for file in late:
        print(file.relative_to(DOCS.parent))
    if "--check" in sys.argv:
        return 1 if late else 0
    wanted = pages()
    for file in late:
        if file in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted[file])
        else:
            file.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
