"""Signed texts that somebody has tampered with."""


def forged(signed: str) -> str:
    """The same with another signature.

    The first letter of it, because some of the last one's bits count for nothing.
    """
    payload, dot, signature = signed.rpartition(".")
    return f"{payload}{dot}{'B' if signature.startswith('A') else 'A'}{signature[1:]}"
