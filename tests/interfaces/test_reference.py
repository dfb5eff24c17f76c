from pathlib import Path

from waystation.interfaces.settings.reference import page

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_reference_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == page(), (
        f"write it anew: python -m waystation.interfaces.settings.reference > {PAGE}"
    )
