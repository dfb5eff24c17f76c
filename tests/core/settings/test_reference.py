from tests.support.project import ROOT
from tools.settings_page import page

PAGE = ROOT / "docs" / "reference" / "settings.md"


def test_the_reference_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == page(), f"write it anew: python -m tools.settings_page > {PAGE}"
