# /// script
# dependencies = ["huey==3.5.4", "redis==7.4.1"]
# ///
"""Huey: one thread that runs jobs, and no results."""

from countdown import Countdown, given
from huey import RedisHuey

asked = given()
countdown = Countdown("huey", asked)
huey = RedisHuey(url=asked.url, results=False)


@huey.task()
def nothing(n: int) -> None:
    countdown.tick(n)


for n in range(asked.jobs):
    nothing(n)
consumer = huey.create_consumer(workers=1, periodic=False, initial_delay=0.001)
consumer.run()
