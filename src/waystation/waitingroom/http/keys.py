"""The Redis keys of the HTTP API."""

from waystation.core.store.keyspace import Hash, Keyspace, String


class HttpKeys(Keyspace, root=""):
    """The keys of the HTTP side."""

    looks = String("queue:<name>:looks", "how the waiting page looks")
    hooks = Hash("queue:<name>:webhooks", "webhooks by id: address, secret and events")
    hook_states = Hash("queue:<name>:webhooks:state", "how far each webhook has come")
    idempotent = String("idempotency:<name>:<what>", "what was asked under a key", ttl="10 min")
    solved = String("pow:<name>:<what>", "a challenge that was solved already", ttl="10 min")

    def __init__(self, name: str = "http") -> None:
        super().__init__(name)

    def of(self, what: str) -> "HttpKeys":
        """The same keys with those of one request filled in."""
        return self.within(HttpKeys, what=what)
