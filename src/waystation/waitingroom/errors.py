"""What can go wrong in a waiting room and nowhere else."""

from waystation.core.errors import InvalidInput


class InvalidToken(InvalidInput):
    """A token that does not count: forged, of another kind or room, expired or revoked."""

    code = "INVALID_TOKEN"
