"""Streams full of events, as a busy day would leave them."""

from redis import Redis

QUEUES = 8

_FILL = """
local stream, first, many = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
for job = first, first + many / 4 - 1 do
  redis.call('XADD', stream, '*', 'event', 'added', 'jobId', job, 'name', 'send')
  redis.call('XADD', stream, '*', 'event', 'waiting', 'jobId', job)
  redis.call('XADD', stream, '*', 'event', 'active', 'jobId', job, 'prev', 'waiting',
    'workerId', 'worker-' .. job % 16)
  redis.call('XADD', stream, '*', 'event', 'completed', 'jobId', job,
    'returnvalue', '{"sent":true}', 'prev', 'active')
end
"""


def fill(client: Redis, many: int) -> None:
    """Let the queues' streams hold so many events in all, and nothing else be there."""
    client.flushdb()
    each = many // QUEUES
    for queue in range(QUEUES):
        for first in range(0, each, 20_000):
            some = min(20_000, each - first)
            client.eval(_FILL, 1, f"bull:q{queue}:events", str(first), str(some))
