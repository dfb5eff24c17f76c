import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.errors import InvalidOption
from waystation.core.store.keyspace import Hash, Keyspace, List, SortedSet, String


class QueueKeys(Keyspace):
    """The keys of one queue."""

    wait = List("wait", "ids ready to run; the oldest at the right end")
    delayed = SortedSet("delayed", "ids by the instant they become ready")

    def of(self, job_id: str) -> "JobKeys":
        return self.within(JobKeys, id=job_id)


class JobKeys(QueueKeys):
    """The keys of one job."""

    job = Hash("<id>", "the job itself")
    lock = String("<id>:lock", "who holds it", ttl="30 s")


class RoomKeys(Keyspace, root=""):
    """Keys whose name stands in the middle."""

    lane = List("queue:<name>:waiting:0", "visitors of one lane")
    address = String("ipmap:<name>:<ip>", "who came from there", ttl="1 h")


def test_a_key_is_the_prefix_the_name_and_the_suffix() -> None:
    assert QueueKeys("mail", prefix="bull").wait == "bull:mail:wait"
    assert QueueKeys("mail").wait == "waystation:mail:wait"


def test_the_keys_of_one_job_know_the_keys_of_its_queue() -> None:
    keys = QueueKeys("mail", prefix="bull")
    assert keys.wait == "bull:mail:wait"
    job = keys.of("7")
    assert (job.lock, job.job, job.wait) == ("bull:mail:7:lock", "bull:mail:7", "bull:mail:wait")
    assert keys.of("8").lock == "bull:mail:8:lock"


def test_an_empty_root_leaves_the_whole_pattern_to_the_line() -> None:
    assert RoomKeys("tickets").lane == "queue:tickets:waiting:0"
    assert RoomKeys("tickets", ip="af31").address == "ipmap:tickets:af31"


def test_a_key_is_built_once() -> None:
    keys = QueueKeys("mail")
    assert keys.wait is keys.wait
    assert vars(keys)["wait"] is keys.wait


def test_what_one_job_built_does_not_stick_to_another() -> None:
    first = QueueKeys("mail").of("1")
    assert first.lock == "waystation:mail:1:lock"
    assert first.of("2").lock == "waystation:mail:2:lock"


def test_the_table_tells_name_pattern_type_ttl_and_meaning() -> None:
    rows = {row.name: row for row in JobKeys.table()}
    assert list(rows) == ["wait", "delayed", "job", "lock"]
    assert rows["lock"] == ("lock", "<prefix>:<name>:<id>:lock", "string", "30 s", "who holds it")


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("bull:mail:wait", "wait"),
        (b"bull:mail:7", "job"),
        ("bull:mail:7:lock", "lock"),
        ("app:bull:mail:7:lock", "lock"),
        ("mail", None),
    ],
)
def test_a_key_finds_the_line_that_declares_it(key: str | bytes, line: str | None) -> None:
    row = JobKeys.matches(key)
    assert (row and row.name) == line


def test_a_tag_keeps_the_keys_of_a_queue_together() -> None:
    assert QueueKeys("{mail}").tag == "mail"
    assert QueueKeys("mail", prefix="{bull}").tag == "bull"
    assert QueueKeys("mail").tag is None


@pytest.mark.parametrize("name", ["", "a\nb", "a:b", "{", "}{", "{}", "{a", "{a}{b}", "x" * 513])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidOption, match="name"):
        QueueKeys(name)


def test_a_name_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidOption, match="must be text, got 7"):
        QueueKeys(7)  # pyright: ignore[reportArgumentType]


def test_a_key_may_not_hide_what_every_keyspace_has() -> None:
    with pytest.raises((TypeError, RuntimeError)) as caught:
        type("Odd", (Keyspace,), {"within": String("within", "a bad idea")})
    raised = caught.value if isinstance(caught.value, TypeError) else caught.value.__cause__
    assert "Odd.within would hide" in str(raised)


@given(st.text(max_size=40))
def test_any_name_is_either_refused_or_found_again(name: str) -> None:
    try:
        keys = JobKeys(name, id="1")
    except InvalidOption:
        return
    assert keys.wait == f"waystation:{name}:wait"
    row = JobKeys.matches(keys.lock)
    assert row is not None
    assert row.name == "lock"


def test_a_name_may_hold_spaces_but_a_prefix_may_not() -> None:
    assert Keyspace("my queue").name == "my queue"
    with pytest.raises(InvalidOption, match="a prefix must not hold spaces"):
        Keyspace("queue", prefix="my prefix")
