"""The way to a server that speaks TLS; the one from the wheel does not, so Debian's is asked."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from tests.servers.certificates import Authority
from tests.support.ports import free_port
from tests.support.programs import require_program
from waystation.bullmq import Job, Queue, Worker
from waystation.core.errors import StoreError, StoreUnreachable, StoreUnsuitable
from waystation.core.store import embedded
from waystation.core.store.connection import connect


class Secured(NamedTuple):
    """A server that speaks TLS only, and the papers of those who may talk to it."""

    port: int
    authority: Path
    certificate: Path
    key: Path

    def url(self, **papers: Path) -> str:
        return f"rediss://127.0.0.1:{self.port}/0?{urlencode(papers)}"

    @property
    def good_url(self) -> str:
        return self.url(
            ssl_ca_certs=self.authority, ssl_certfile=self.certificate, ssl_keyfile=self.key
        )


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    port = free_port()
    settings = {
        "port": "0",
        "tls-port": str(port),
        "tls-cert-file": str(certificate),
        "tls-key-file": str(key),
        "tls-ca-cert-file": str(authority.certificate),
        "tls-auth-clients": "yes",
    }
    program = require_program("redis-server", package="redis-server")
    with embedded.ephemeral(settings, program=program):
        yield Secured(port, authority.certificate, *authority.issue("client"))


async def test_work_is_done_over_tls(secured: Secured) -> None:
    async def double(job: Job) -> int:
        return job.data * 2

    async with Queue("sums", secured.good_url) as queue, Worker("sums", double, secured.good_url):
        jobs = await queue.add_many([("double", n) for n in range(20)])
        assert [await job.wait(timeout=60_000) for job in jobs] == [2 * n for n in range(20)]


async def test_a_server_of_an_unknown_authority_is_refused(
    secured: Secured, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "stranger").certificate
    url = secured.url(ssl_ca_certs=other, ssl_certfile=secured.certificate, ssl_keyfile=secured.key)
    with pytest.raises(StoreUnsuitable, match=r"is not trusted .*ssl_ca_certs") as caught:
        await connect(url)
    assert "\n" not in str(caught.value)


async def test_a_client_without_papers_is_not_let_in(secured: Secured) -> None:
    with pytest.raises(StoreUnreachable, match="no store answers at rediss://"):
        await connect(secured.url(ssl_ca_certs=secured.authority))


async def test_papers_that_are_not_there_are_told(secured: Secured, tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="no store answers"):
        await connect(secured.url(ssl_ca_certs=tmp_path / "nowhere.crt"))


async def test_plain_words_to_a_server_that_speaks_tls_are_told(secured: Secured) -> None:
    # Some servers say goodbye in TLS, others hang up without a word.
    with pytest.raises(StoreError, match=r"speaks TLS; use rediss://|no store answers"):
        await connect(f"redis://127.0.0.1:{secured.port}")


def test_a_command_ends_with_one_line_when_the_authority_is_unknown(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Authority(tmp_path, "stranger").certificate
    monkeypatch.setenv("WAYSTATION_STORE__URL", secured.url(ssl_ca_certs=other))
    command = [sys.executable, "-m", "waystation", "bullmq", "counts", "mail"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("waystation: the store's certificate is not trusted")
    assert ended.stderr.count("\n") == 1
