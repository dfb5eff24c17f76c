"""Sending: a body, signed, to a webhook; what went wrong comes back as a sentence."""

import asyncio
import hashlib
import hmac
from collections.abc import Sequence
from functools import partial

from waystation.core.backoff import Backoff, Growth
from waystation.core.clock import Clock, SystemClock
from waystation.core.errors import InvalidOption
from waystation.core.failure import message_of
from waystation.core.http.addresses import Network
from waystation.core.runtime.handlers.threads import Threads
from waystation.core.telemetry.logs import get_logger
from waystation.core.webhooks import delivery as outside

_log = get_logger(__name__)

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
        # Of its own: a name that nobody answers for must not keep others' threads.
        self._threads = Threads(name="webhook")

    def now_ms(self) -> int:
        """The instant, in milliseconds."""
        return self._clock.now_ms()

    async def send(self, url: str, secret: str, body: bytes, *, delivery: str) -> str:
        """Send a body; an empty text when it was taken, else what went wrong, whatever it was."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "waystation-webhook",
            f"{self._headers}-Delivery": delivery,
            f"{self._headers}-Signature": signature(secret, body, self.now_ms() // 1000),
        }
        try:
            # A little more than the request itself takes at most: names are asked for before.
            async with asyncio.timeout(2 * outside.PATIENCE_S):
                status = await self._threads.run(
                    partial(outside.post, url, body, headers, self.private)
                )
        except (outside.Unreachable, InvalidOption) as error:
            return str(error)
        except TimeoutError:
            return "there was no answer in time"
        except Exception as error:
            _log.exception("webhook_not_sent")
            return f"{type(error).__name__}: {message_of(error)}"
        return "" if 200 <= status < 300 else f"the answer was {status}"


def signature(secret: str, body: bytes, now_s: int) -> str:
    """The signature of a body at an instant; whoever knows the secret can check it."""
    mac = hmac.new(secret.encode(), f"{now_s}.".encode() + body, hashlib.sha256)
    return f"t={now_s},v1={mac.hexdigest()}"
