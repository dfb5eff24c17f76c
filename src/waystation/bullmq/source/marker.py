"""Names of connections: how dashboards recognize a queue's workers and listeners."""

import base64

from waystation.bullmq.redis.keys import QueueKeys


def client_name(keys: QueueKeys, suffix: str = "") -> str:
    """The name that BullMQ's dashboards look for."""
    return f"{keys.prefix}:{base64.b64encode(keys.name.encode()).decode()}{suffix}"
