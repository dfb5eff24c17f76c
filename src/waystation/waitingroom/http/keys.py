"""The Redis keys of the HTTP API."""

from waystation.core.store.keyspace import Hash, Keyspace, Stream, String


class HttpKeys(Keyspace, root=""):
    """The keys of the HTTP side."""

    operators = Hash("admin:keys", "who may operate, by the digest of their key")
    signed_in = String("admin:session:<what>", "the key that somebody signed in with", ttl="12 h")
    sign_in = String("admin:oidc:<what>", "somebody at the identity provider", ttl="10 min")
    second_factors = Hash("admin:totp", "what each operator's authenticator knows, by name")
    guesses = Hash("admin:totp:<what>:guesses", "how many codes somebody tried", ttl="15 min")
    used_code = String("admin:totp:<what>:used", "a code that was shown already", ttl="3 min")
    audit = Stream("admin:audit", "who changed what, before and after")
    looks = String("queue:<name>:looks", "how the waiting page looks")
    hooks = Hash("queue:<name>:webhooks", "who is told what happens, by id")
    hook_states = Hash("queue:<name>:webhooks:state", "how far each of them has been told")
    idempotent = String("idempotency:<name>:<what>", "what was asked under a key", ttl="10 min")
    solved = String("pow:<name>:<what>", "a challenge that was solved already", ttl="2 min")

    def __init__(self, name: str = "http") -> None:
        super().__init__(name)

    def of(self, what: str) -> "HttpKeys":
        """The same keys with those of one request filled in."""
        return self.within(HttpKeys, what=what)
