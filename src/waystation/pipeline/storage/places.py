"""Places where a history can be kept."""

from waystation.core.errors import InvalidOption


def checked_root(path: str) -> str:
    """The directory of a history; refuses a URL of an object store before anything is written.

    A settings file has its paths shortened, so `s3://bucket` may arrive as `s3:/bucket`.
    """
    scheme, found, rest = path.partition(":/")
    if not found or len(scheme) < 2 or "/" in scheme:
        return path.rstrip("/")
    if scheme.lower() == "file":
        return "/" + rest.strip("/")
    raise InvalidOption(
        "a history must be a directory that every machine of the session sees, such as "
        f"/shared/history; {scheme} is not supported yet, got {path}"
    )
