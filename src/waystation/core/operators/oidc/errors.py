"""Errors of a sign-in with an identity provider."""


class SignInRefused(Exception):
    """Somebody is not let in; the words are for them."""

    status = 403
    page = ""
    """The page that the sign-in began on, as far as that is known."""


class SignInUnknown(SignInRefused):
    """What came back belongs to no sign-in that began in this browser."""

    status = 400


class ProviderAway(SignInRefused):
    """The provider does not answer, or not as it should."""

    status = 502
