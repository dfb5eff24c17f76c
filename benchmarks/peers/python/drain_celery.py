# /// script
# dependencies = ["celery[redis]==5.7.0"]
# ///
"""Celery: its pool without children, and no results kept, which is its quickest way."""

from celery import Celery
from countdown import Countdown, given

asked = given()
countdown = Countdown("celery", asked)
app = Celery(broker=asked.url)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=asked.concurrency)


@app.task
def nothing(n: int) -> None:
    countdown.tick(n)


with app.producer_pool.acquire(block=True) as producer:
    for n in range(asked.jobs):
        nothing.apply_async((n,), producer=producer)
quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
app.worker_main(["worker", "--pool=solo", *quiet])
