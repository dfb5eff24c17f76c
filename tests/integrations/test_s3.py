"""Payloads in an object store."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.buckets import ACCESS, create_bucket, object_store
from tests.support.patience import LIMIT_S
from waystation.bullmq import PayloadOptions, Queue, Worker
from waystation.errors import InvalidOption, NotFound, UnreadableData
from waystation.integrations.s3 import S3Blobs

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

NAME = "mail/" + "0" * 32


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with object_store(tmp_path_factory.mktemp("objects")) as endpoint:
        create_bucket(f"{endpoint}/shop")
        yield endpoint


@pytest.fixture
def blobs(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> S3Blobs:
    for name, value in (ACCESS | {"AWS_ENDPOINT_URL": endpoint}).items():
        monkeypatch.setenv(name, value)
    return S3Blobs(f"s3://shop/{tmp_path.name}")


def test_an_object_is_written_read_listed_and_deleted(blobs: S3Blobs) -> None:
    assert list(blobs.of("mail")) == []
    blobs.write(NAME, b"{}")
    assert blobs.read(NAME) == b"{}"
    [found] = blobs.of("mail")
    assert found.name == NAME
    assert abs(found.written_at - datetime.now(UTC)) < timedelta(days=1)
    assert list(blobs.of("other")) == []
    for _ in range(2):
        blobs.delete(NAME)
        assert list(blobs.of("mail")) == []
    with pytest.raises(NotFound, match=r"is gone from s3://shop/"):
        blobs.read(NAME)


def test_a_bucket_that_is_not_there_has_lost_nothing(blobs: S3Blobs, endpoint: str) -> None:
    away = S3Blobs("s3://away", endpoint=endpoint, region="us-east-1")
    with pytest.raises(ConnectionError, match="the bucket away is not there"):
        away.read(NAME)
    with pytest.raises(ConnectionError, match="the bucket away is not there"):
        list(away.of("mail"))
    with pytest.raises(OSError, match="away"):
        away.write(NAME, b"{}")


@pytest.mark.parametrize("name", ["../x", "mail/../x", "mail/a/b", "/etc", "mail", "mail/"])
def test_a_name_leads_nowhere_else(name: str, blobs: S3Blobs) -> None:
    for step in (blobs.read, blobs.delete):
        with pytest.raises(InvalidOption, match="is no name of a payload"):
            step(name)
    with pytest.raises(InvalidOption, match="is no name of a payload"):
        blobs.write(name, b"")


@pytest.mark.parametrize("url", ["shop", "s3://", "http://shop", "s3://shop?region=x"])
def test_a_place_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match="must be s3://bucket/prefix"):
        S3Blobs(url)
    with pytest.raises(InvalidOption, match="endpoint must be a URL"):
        S3Blobs("s3://shop", endpoint="localhost:9000")


async def test_large_payloads_of_jobs_are_kept_there(blobs: S3Blobs, redis_url: str) -> None:
    payloads = PayloadOptions(blobs=blobs, above=50)

    def twice(job: Any) -> str:
        return 2 * job.data["word"]

    async with (
        Queue("mail", redis_url, payloads=payloads) as queue,
        Worker("mail", twice, redis_url, payloads=payloads),
        asyncio.timeout(LIMIT_S),
    ):
        job = await queue.add("twice", {"word": "x" * 99})
        assert await queue.wait(job.id) == "x" * 198
        kept = await asyncio.to_thread(lambda: list(blobs.of("mail")))
        assert len(kept) == 2
        assert await queue.sweep_blobs(older=timedelta(0)) == 0
        await queue.remove(job.id)
        while await asyncio.to_thread(lambda: list(blobs.of("mail"))):
            await queue.sweep_blobs(older=timedelta(0))
        with pytest.raises(UnreadableData, match="is gone from"):
            print(job.data)
