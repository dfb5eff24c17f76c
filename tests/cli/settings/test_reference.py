from tests.support.project import ROOT
from waystation.cli.settings.reference import page

PAGE = ROOT / "docs" / "reference" / "settings.md"


def test_the_reference_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == page(), (
        f"write it anew: python -m waystation.cli.settings.reference > {PAGE}"
    )
