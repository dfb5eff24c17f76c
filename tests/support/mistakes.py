"""Programs with mistakes that a type checker must find."""


def planted(program: str) -> set[int]:
    """The lines that hold a mistake."""
    lines = enumerate(program.splitlines(), 1)
    return {number for number, line in lines if line.endswith("# mistake")}
