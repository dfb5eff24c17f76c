"""The Redis keys of operators and of the audit log."""

from waystation.core.store.keyspace import Hash, Keyspace, Stream, String


class OperatorKeys(Keyspace, root=""):
    """The keys of those who may operate; all servers of a store share them."""

    operators = Hash("admin:keys", "who may operate, by the digest of their key")
    signed_in = String("admin:session:<what>", "the key that somebody signed in with", ttl="12 h")
    sign_in = String("admin:oidc:<what>", "somebody at the identity provider", ttl="10 min")
    audit = Stream("admin:audit", "who changed what, before and after")

    def __init__(self, name: str = "http") -> None:
        super().__init__(name)

    def of(self, what: str) -> "OperatorKeys":
        """The same keys with those of one request filled in."""
        return self.within(OperatorKeys, what=what)
