"""The settings of an identity provider, and what is said about half of them."""

from pathlib import Path

import msgspec
import pytest

from waystation.core.errors import InvalidSetting
from waystation.core.operators.oidc_settings import Grant, oidc_options
from waystation.core.operators.roles import Role
from waystation.core.settings.load import load
from waystation.waitingroom.settings import RoomSettings

WHOLE = {
    "ISSUER": "https://login.example",
    "CLIENT_ID": "room",
    "CLIENT_SECRET": "hush",
    "PUBLIC_URL": "https://wait.example/",
    "GRANTS": "{admins: {role: admin}, night shift: {role: operator, rooms: [shop]}}",
}


def _settings(**said: str) -> RoomSettings:
    environ = {f"WAYSTATION_ROOM__OIDC__{name}": value for name, value in said.items()}
    return load({"room": RoomSettings}, Path("nowhere.yaml"), environ=environ)[RoomSettings]


def _without(name: str) -> dict[str, str]:
    return {each: value for each, value in WHOLE.items() if each != name}


def test_a_whole_provider_is_set_up_and_none_is_none() -> None:
    options = oidc_options(_settings(**WHOLE).oidc, "room.oidc")
    assert options is not None
    assert options.callback == "https://wait.example/sign-in/callback"
    assert options.client_secret == "hush"
    assert options.grants == {
        "admins": Grant(role=Role.ADMIN),
        "night shift": Grant(role=Role.OPERATOR, queues=("shop",)),
    }
    assert oidc_options(_settings().oidc, "room.oidc") is None


def test_the_command_line_changes_nothing_about_it() -> None:
    for settings in (_settings(), _settings(**WHOLE)):
        again = msgspec.structs.replace(settings, port=1234)
        assert again.oidc == settings.oidc


def test_the_secret_comes_from_a_file_as_well(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from a file\n")
    said = {**_without("CLIENT_SECRET"), "CLIENT_SECRET_FILE": str(file)}
    options = oidc_options(_settings(**said).oidc, "room.oidc")
    assert options is not None
    assert options.client_secret == "from a file"
    file.write_text("\n")
    with pytest.raises(InvalidSetting, match="wants a secret, got an empty one"):
        oidc_options(_settings(**said).oidc, "room.oidc")
    # Commands that let nobody sign in need none.
    with pytest.raises(InvalidSetting, match="wants a secret, got an empty one"):
        oidc_options(_settings(**_without("CLIENT_SECRET")).oidc, "room.oidc")
    file.unlink()
    with pytest.raises(InvalidSetting, match="wants a file that can be read"):
        oidc_options(_settings(**said).oidc, "room.oidc")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"ISSUER": "https://login.example"}, "needs client_id, public_url, grants as well"),
        (_without("ISSUER"), "needs issuer as well"),
        (_without("GRANTS"), "needs grants as well"),
        ({**WHOLE, "CLIENT_SECRET_FILE": "x"}, "needs either client_secret or"),
        ({**WHOLE, "GRANTS": "{a: {role: connector}}"}, "wants 'viewer', 'operator' or 'admin'"),
        ({**WHOLE, "GRANTS": "{a: {rooms: [shop]}}"}, "role"),
    ],
)
def test_half_a_provider_is_refused_when_the_settings_are_read(
    said: dict[str, str], wrong: str
) -> None:
    with pytest.raises(InvalidSetting, match=wrong):
        _settings(**said)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"ISSUER": "http://login.example"}, "issuer must start with https://"),
        ({"PUBLIC_URL": "wait.example"}, "public_url must start with https://"),
        ({"SCOPES": "email"}, "scopes must have openid among them"),
    ],
)
def test_a_provider_that_cannot_be_believed_is_refused_at_the_start(
    said: dict[str, str], wrong: str
) -> None:
    with pytest.raises(InvalidSetting, match=wrong):
        oidc_options(_settings(**{**WHOLE, **said}).oidc, "room.oidc")
