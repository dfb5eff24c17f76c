"""The tests that must hold on every server, as arguments for pytest; the CI matrix runs them."""

from tests.servers.test_redis import FULL

print(*FULL)
