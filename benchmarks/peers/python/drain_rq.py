# /// script
# dependencies = ["rq==2.12.0"]
# ///
"""RQ: its worker that does not fork for each job."""

import jobs
from countdown import given
from redis import Redis
from rq import Queue, SimpleWorker

asked = given()
connection = Redis.from_url(asked.url)
queue = Queue(connection=connection)
queue.enqueue_many([Queue.prepare_data(jobs.nothing, (n,)) for n in range(asked.jobs)])
jobs.expect("rq", asked)
SimpleWorker([queue], connection=connection).work(burst=True, logging_level="ERROR")
