"""A tree, or a listing of one, added by Spark: everything once, nothing from outside."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from redis import Redis

from tests.pipeline.drill import Driver, plant
from waystation.core.errors import InvalidInput, InvalidOption
from waystation.files.directory.scan import ScanOptions
from waystation.files.options import Layout
from waystation.files.producer import ProducerOptions
from waystation.pipeline import file_scan
from waystation.pipeline.file_scan import ScanRules, Share, shares
from waystation.pipeline.products.files import FilesEncoder, FilesSetup
from waystation.pipeline.sources.batch_writer import BatchWriter

LONG_AGO = 1_700_000_000


def rules(url: str, scan_dir: Path, **more: Any) -> ScanRules:
    options = ScanOptions(scan_dir=str(scan_dir), settle=60)
    return ScanRules(url=url, producer=ProducerOptions(scan=options), **more)


def jobs(store: Redis, queue: str = "jobqueue:low_priority") -> list[dict[str, Any]]:
    raws: Any = store.lrange(queue, 0, -1)
    return [json.loads(raw) for raw in raws]


def paths(store: Redis, queue: str = "jobqueue:low_priority") -> set[str]:
    return {job["filepath"] for job in jobs(store, queue)}


def put(file: Path | bytes, text: str = "x", *, at: int = LONG_AGO) -> None:
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(file, "w") as opened:
        opened.write(text)
    os.utime(file, (at, at))


@pytest.mark.slow
def test_a_tree_is_put_in_line_by_the_producers_rules_and_again_only_what_is_new(
    spark: SparkSession, store: Redis, redis_url: str, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    for name in ("a.txt", "deep/er/b.PDF", "deep/c.tmp", "deep/line\nbreak"):
        put(tree / name)
    put(os.fsencode(tree) + b"/deep/\xff.bin")
    put(tree / "young.txt", at=int(time.time()))
    put(tmp_path / "secret.txt")
    (tree / "way_out").symlink_to(tmp_path / "secret.txt")
    (tree / "up").symlink_to(tmp_path)

    first = file_scan.scan_tree(spark, rules(redis_url, tree))
    assert (first.found, first.queued, first.known) == (4, 4, 0)
    assert first.skipped == {"excluded": 1, "fresh": 1, "outside": 2}
    assert (first.receipt.jobs, first.receipt.closed_at is None) == (4, False)
    root = os.path.realpath(tree)
    assert paths(store) == {f"{root}/{n}" for n in ("a.txt", "deep/line\nbreak", "deep/\\xff.bin")}
    assert paths(store, "jobqueue:high_priority") == {f"{root}/deep/er/b.PDF"}

    put(tree / "new.txt")
    put(tree / "a.txt", "changed")
    again = file_scan.scan_tree(spark, rules(redis_url, tree))
    assert (again.found, again.queued, again.known) == (5, 2, 3)
    assert len(jobs(store)) == 5


@pytest.mark.slow
def test_a_listing_is_put_in_line_whatever_its_form_and_nothing_outside_its_root(
    spark: SparkSession, store: Redis, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "listing.csv").write_text(
        "path,size,mtime\n"
        f"s3://lake/in/a.txt,1,{LONG_AGO}\n"
        f'"in/with, comma.txt",2,{LONG_AGO}.5\n'
        "in/day.pdf,3,2024-02-29T12:00:00Z\n"
        f"s3://lakeside/a.txt,1,{LONG_AGO}\n"
        f"in/../../b.txt,1,{LONG_AGO}\n"
        f"/etc/passwd,1,{LONG_AGO}\n"
        f"in/half.tmp,1,{LONG_AGO}\n"
        f"in/young.txt,1,{int(time.time())}\n"
        f"in/negative.txt,-1,{LONG_AGO}\n"
        f"in/millis.txt,1,{LONG_AGO}000\n"
        "in/short.txt\n"
    )
    asked = rules(redis_url, tmp_path, root="s3://lake")
    done = file_scan.scan_listing(spark, str(tmp_path / "listing.csv"), asked)
    assert (done.found, done.queued) == (3, 3)
    assert done.skipped == {"excluded": 1, "fresh": 1, "outside": 3, "unreadable": 3}
    assert paths(store) == {"s3://lake/in/a.txt", "s3://lake/in/with, comma.txt"}

    rows = spark.sql(
        f"select 'in/a.txt' as path, 1 as size, timestamp_seconds({LONG_AGO}) as mtime "
        f"union all select 'in/b.txt', 2, timestamp_seconds({LONG_AGO})"
    )
    rows.write.parquet(str(tmp_path / "listing.parquet"))
    again = file_scan.scan_listing(spark, str(tmp_path / "listing.parquet"), asked)
    assert (again.found, again.queued, again.known) == (2, 1, 1)


def test_a_listing_that_is_none_is_refused(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match="wanted a directory, or a listing"):
        file_scan.scan_listing(spark, str(tmp_path / "nowhere.csv"), rules(redis_url, tmp_path))
    other = str(tmp_path / "other.parquet")
    spark.sql("select 'a' as path, 1 as bytes").write.parquet(other)
    with pytest.raises(InvalidInput, match="got path, bytes without size, mtime"):
        file_scan.scan_listing(spark, other, rules(redis_url, tmp_path))


@pytest.mark.long
def test_a_scan_that_was_killed_is_run_again_and_puts_every_file_in_line_once(
    spark: SparkSession, store: Redis, redis_url: str, tmp_path: Path
) -> None:
    many = plant(tmp_path / "tree")
    with Driver("scan", str(tmp_path / "tree"), redis_url) as driver:
        driver.wait_for(lambda: store.llen("jobqueue:low_priority") > many / 4)
    assert 0 < store.llen("jobqueue:low_priority") < many

    done = file_scan.scan_tree(spark, rules(redis_url, tmp_path / "tree"))
    assert done.found == many
    assert 0 < done.queued < many
    assert (len(jobs(store)), len(paths(store))) == (many, many)


def test_a_tree_is_cut_into_parts_that_hold_each_directory_once(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"chain/{number % 5}/{number}").mkdir(parents=True)
    (tmp_path / "loop").symlink_to(tmp_path)
    parts = shares(str(tmp_path), enough=20)
    whole = {part.directory for part in parts if part.whole}
    opened = {part.directory for part in parts if not part.whole}
    assert len(whole) >= 20
    covered = opened | {str(d) for d in tmp_path.rglob("*") if {*map(str, [d, *d.parents])} & whole}
    assert {str(d) for d in tmp_path.rglob("*") if d.is_dir() and not d.is_symlink()} <= covered
    assert all(not Path(part.directory).is_symlink() for part in parts)
    assert shares(str(tmp_path), enough=1) == [Share(str(tmp_path), True)]


def test_a_line_with_names_of_its_own_gets_its_files_under_them(store: Redis) -> None:
    layout = Layout(prefix="lake", queues={"high": "lake:now", "low": "lake:later"})
    batch = BatchWriter(
        FilesEncoder(FilesSetup(layout=layout)), "files", "lake", "one", keep_ms=60_000
    )
    batch.add(store, [{"key": "1", "path": "/a", "size": 1, "mtime_ns": 1}], chunk=10)
    (job,) = jobs(store, "lake:later")
    assert (job["filepath"], job["origin_queue"], job["priority"]) == ("/a", "lake:later", "low")


@pytest.mark.parametrize("setup", ["no", '{"layout": {"priorities": []}}'])
def test_a_setup_that_makes_no_sense_is_refused(setup: str) -> None:
    with pytest.raises(InvalidOption, match=r"setup|priorities"):
        FilesEncoder().with_setup(setup)
