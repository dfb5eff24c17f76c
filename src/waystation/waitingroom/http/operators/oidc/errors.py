"""What can go wrong on the way to an identity provider and back."""


class SignInRefused(Exception):
    """Somebody is not let in; the words are for them."""

    status = 403


class SignInUnknown(SignInRefused):
    """What came back belongs to no sign-in that began in this browser."""

    status = 400


class ProviderAway(SignInRefused):
    """The provider does not answer, or not as it should."""

    status = 502
