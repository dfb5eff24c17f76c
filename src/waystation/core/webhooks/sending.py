"""Sending: a body, signed, to a webhook; what went wrong comes back as a sentence."""

import asyncio
import hashlib
import hmac
from collections.abc import Sequence

from waystation.core.backoff import Backoff, Growth
from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption
from waystation.core.http.addresses import Network
from waystation.core.webhooks import delivery as outside

BATCH = 100
"""Events of one request."""
RETRY = Backoff(Growth.EXPONENTIAL, 2000, jitter=0.25, cap_ms=600_000)
"""How long to wait after a request that failed."""


class Sender:
    """Sends to public addresses, and to the private networks that were named."""

    def __init__(
        self,
        private: Sequence[Network] = (),
        *,
        headers: str = "Waystation",
        clock: Clock | None = None,
    ) -> None:
        self.private = private
        """Private networks that webhooks may go to."""
        self._headers = headers
        self._clock = clock or SystemClock()

    def now_ms(self) -> int:
        """The instant, in milliseconds."""
        return self._clock.now_ms()

    async def send(self, url: str, secret: str, body: bytes, *, delivery: str) -> str:
        """Send a body; an empty text when it was taken."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "waystation-webhook",
            f"{self._headers}-Delivery": delivery,
            f"{self._headers}-Signature": signature(secret, body, self.now_ms() // 1000),
        }
        try:
            status = await asyncio.to_thread(outside.post, url, body, headers, self.private)
        except (outside.Unreachable, InvalidOption) as error:
            return str(error)
        return "" if 200 <= status < 300 else f"the answer was {status}"


def signature(secret: str, body: bytes, now_s: int) -> str:
    """The signature of a body at an instant; whoever knows the secret can check it."""
    mac = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256)
    return f"t={now_s},v1={mac.hexdigest()}"
