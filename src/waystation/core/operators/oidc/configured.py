"""The identity provider that the settings name."""

from waystation.core.errors import InvalidOption, InvalidSetting
from waystation.core.operators.oidc.options import Grant, OidcOptions
from waystation.core.operators.oidc.settings import OidcSettings
from waystation.core.operators.roles import Role


def oidc_options(settings: OidcSettings, section: str) -> OidcOptions | None:
    """The identity provider that operators may sign in with, if one is set up."""
    if not settings.is_set:
        return None
    try:
        return OidcOptions(
            issuer=settings.issuer,
            client_id=settings.client_id,
            client_secret=_client_secret(settings, section),
            public_url=settings.public_url,
            scopes=settings.scopes,
            claim=settings.claim,
            grants={
                group: Grant(role=Role(each.role), queues=each.rooms)
                for group, each in settings.grants.items()
            },
        )
    except InvalidOption as error:
        raise InvalidSetting(f"{section}: {error}") from error


def _client_secret(settings: OidcSettings, section: str) -> str:
    file, given = settings.client_secret_file, settings.client_secret
    try:
        secret = file.read_text().strip() if file else ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(
            f"{section}.client_secret_file wants a file that can be read, got {file} ({error})"
        ) from error
    secret = secret or (given or "")
    if not secret:
        raise InvalidSetting(f"{section} wants a secret, got an empty one")
    return secret
