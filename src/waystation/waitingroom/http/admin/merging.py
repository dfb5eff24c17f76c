"""Settings of a room in JSON, in our names or in those of other waiting rooms."""

from typing import Any, cast

from waystation.core.errors import InvalidOption
from waystation.waitingroom.http.returns import is_host
from waystation.waitingroom.http.visitors.challenge import checked_bits
from waystation.waitingroom.options import RoomOptions

_BITS = ("pow_bits", "crowded_pow_bits")
OWN = (*_BITS, "invite_only", "fail_policy", "page_status", "return_hosts")
"""Fields of a room's `meta` that the HTTP API keeps besides its options."""
_SAME = {"total_active_users": "max_active", "max_active_users": "max_active"}
"""What others call an option of ours."""
_AMONG = {
    "fail_policy": ("open", "closed"),
    "invite_only": ("0", "1"),
    "page_status": ("200", "202", "429", "503"),
}


def merged(options: RoomOptions, asked: dict[str, Any]) -> tuple[RoomOptions, dict[str, str]]:
    """Options with what was asked for, and the HTTP API's own fields."""
    own = {name: asked[name] for name in OWN if name in asked}
    plain = {name: value for name, value in asked.items() if name not in OWN}
    if "new_users_per_minute" in plain:
        plain["admission_rate"] = _number(plain.pop("new_users_per_minute")) / 60
    plain = {_SAME.get(name, name): value for name, value in plain.items()}
    for name, among in _AMONG.items():
        if name in own and _field(own[name]) not in among:
            raise InvalidOption(f"{name} must be one of {', '.join(among)}, got {own[name]!r}")
    if "return_hosts" in own:
        own["return_hosts"] = _hosts(own["return_hosts"])
    for name in _BITS:
        if name in own:
            own[name] = checked_bits(int(_number(own[name])), name)
    return options.with_settings(plain), {name: _field(value) for name, value in own.items()}


def named(options: RoomOptions, asked: dict[str, Any]) -> dict[str, str]:
    """The fields of `meta` for all settings that were asked for, also those that change nothing."""
    wanted, own = merged(options, asked)
    fields = wanted.to_fields()
    names = ("admission_rate" if each == "new_users_per_minute" else each for each in asked)
    kept = (_SAME.get(each, each) for each in names)
    return {**{name: fields[name] for name in kept if name in fields}, **own}


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidOption(f"wanted a number, got {value!r}")
    return float(value)


def _hosts(value: object) -> str:
    """Hosts as they are kept, from a list of them or a text with commas in between."""
    wanted = value.split(",") if isinstance(value, str) and value else value or []
    given = cast("list[object]", wanted) if isinstance(wanted, list) else [wanted]
    hosts = [each.strip() for each in given if isinstance(each, str)]
    if len(hosts) < len(given) or not all(is_host(each) for each in hosts):
        raise InvalidOption(
            f"return_hosts must be hosts such as shop.example or localhost:8000, got {value!r}"
        )
    return ",".join(hosts)


def _field(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, str | int | float):
        raise InvalidOption(f"wanted a plain value, got {type(value).__name__}")
    return str(value)
