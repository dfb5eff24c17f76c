"""`waystation bullmq` for groups: what it prints, sets and refuses."""

import json

import pytest
from redis import Redis

from tests.support.command import Command
from waystation.bullmq import Group, GroupSettings, JobOptions, NewJob
from waystation.sync import Queue as BlockingQueue


def test_groups_are_listed_with_what_holds_them(bullmq: Command, redis_url: str) -> None:
    with BlockingQueue("mail", redis_url) as queue:
        queue.add_many([NewJob("send", None, JobOptions(group="acme"))] * 3)
        queue.add("send", group=Group("a b", parent="bell"))
    assert bullmq("pause-group", "mail", "bell/a b").stdout == "paused\n"
    limits = ("--concurrency", "2", "--rate", "100/60s", "--weight", "2.5", "--max-size", "9")
    limits = (*limits, "--budget", "5000")
    assert bullmq("set-group", "mail", "acme", *limits).stdout == "set\n"

    first, *rest = json.loads(bullmq("groups", "mail", "--json").stdout)

    assert first == {
        "group": "acme", "waiting": 3, "active": 0, "spent": 0, "spent_today": 0, "held_by": None,
        "held_for_s": None, "concurrency": 2, "rate": {"max": 100, "duration_s": 60},
        "budget": 5000, "weight": 2.5, "max_size": 9, "paused": False,
    }  # fmt: skip
    held = {each["group"]: (each["waiting"], each["held_by"]) for each in rest}
    assert held == {"bell": (1, None), "bell/a%20b": (1, "paused")}
    [line] = bullmq("groups", "mail", "bell/a%20b").stdout.splitlines()
    assert line.split() == ["bell/a%20b", "1", "0", "0", "1", "paused"]
    listed = bullmq("groups", "mail", "-n", "1")
    assert " ".join(listed.stdout.split()) == "acme 3 0 of 2 0 of 100 in 60 s 0 of 5,000 2.5"
    assert "only 1 are shown, there are more: --count" in listed.stderr
    assert bullmq("resume-group", "mail", "bell/a b").stdout == "resumed\n"
    assert bullmq("reset-group", "mail", "acme").stdout == "reset\n"
    shown = json.loads(bullmq("groups", "mail", "acme", "--json").stdout)
    assert (shown[0]["concurrency"], shown[0]["rate"], shown[0]["weight"]) == (None, None, None)
    assert bullmq("groups", "mail", "bell/a%20b").stdout.split()[-1] == "1"


def test_limits_of_all_groups_are_set_before_there_is_one(bullmq: Command, redis_url: str) -> None:
    assert bullmq("set-group", "mail", "*", "--concurrency", "1").returncode == 1
    with Redis.from_url(redis_url) as redis:
        assert redis.dbsize() == 0
    bullmq("set-group", "mail", "*", "--concurrency", "1", "--in-advance")
    bullmq("set-group", "mail", "*/*", "--max-size", "1", "--in-advance")
    bullmq("set-group", "mail", "", "--weight", "3", "--in-advance")

    with BlockingQueue("mail", redis_url) as queue:
        assert queue.groups.get("acme").settings == GroupSettings(concurrency=1)
        key = Group("key", parent="acme")
        assert queue.groups.get(key).settings == GroupSettings(max_size=1)
        assert queue.groups.settings() == GroupSettings(weight=3)
        queue.add("send")
        bullmq("reset-group", "mail", "*")
        assert queue.groups.get("acme").settings == GroupSettings()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("set-group", "mail", "acme"), "name what to set: --concurrency, --rate, --weight"),
        (("set-group", "mail", "acme", "--rate", "often"), "such as 100/60s, got 'often'"),
        (
            ("set-group", "mail", "", "--concurrency", "1"),
            "jobs without a group have a weight only",
        ),
        (("set-group", "mail", "a/b/c", "--weight", "1"), "%2F for a slash in an id, got 'a/b/c'"),
        (("pause-group", "mail", "*"), "a group is named as acme or acme/key"),
    ],
)
def test_what_no_group_can_have_is_refused(
    bullmq: Command, args: tuple[str, ...], says: str
) -> None:
    bullmq("add", "mail", "send")
    refused = bullmq(*args)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert says in refused.stderr


def test_the_limits_of_a_queue_are_set_printed_and_lifted(bullmq: Command, redis_url: str) -> None:
    assert bullmq("limit", "mail", "--concurrency", "1").returncode == 1
    bullmq("limit", "mail", "--rate", "100/60s", "--in-advance")
    assert bullmq("limit", "mail", "--concurrency", "5").stdout == "5 at once\n100 in 60 s\n"
    assert bullmq("limit", "mail").stdout == "5 at once\n100 in 60 s\n"
    refused = bullmq("limit", "mail", "--lift", "--concurrency", "5")
    assert "either set limits or --lift them" in refused.stderr
    assert bullmq("limit", "mail", "--lift").stdout == "mail has no limit\n"
    with BlockingQueue("mail", redis_url) as queue:
        assert (queue.limits.get_concurrency(), queue.limits.get_rate_limit()) == (None, None)
