# /// script
# dependencies = ["dramatiq[redis]==2.2.1"]
# ///
"""Dramatiq: its threads, as many as it starts by itself."""

import threading

import dramatiq
from countdown import Countdown, given
from dramatiq.brokers.redis import RedisBroker

asked = given()
countdown = Countdown("dramatiq", asked)
broker = RedisBroker(url=asked.url)
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing(n: int) -> None:
    countdown.tick(n)


for n in range(asked.jobs):
    nothing.send(n)
worker = dramatiq.Worker(broker)
worker.start()
threading.Event().wait()
