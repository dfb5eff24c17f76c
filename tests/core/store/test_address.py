import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waystation.core.errors import InvalidUrl
from waystation.core.store.connection.address import Kind, parse


def test_one_server() -> None:
    address = parse("redis://me:s%40fe@db.example:7000/3")
    assert (address.kind, address.hosts, address.db) == (Kind.SINGLE, (("db.example", 7000),), 3)
    assert (address.username, address.password) == ("me", "s@fe")


def test_what_is_left_out_has_its_usual_value() -> None:
    address = parse("rediss://db.example")
    assert (address.hosts, address.db, address.tls) == ((("db.example", 6379),), 0, True)
    assert address.username is address.password is None


def test_a_server_by_its_socket() -> None:
    address = parse("unix:///run/my%20redis.sock?db=2")
    assert (address.kind, address.path, address.db) == (Kind.SOCKET, "/run/my redis.sock", 2)


def test_sentinels() -> None:
    address = parse("redis+sentinel://:secret@a:1,b,[::1]:3/primary/4")
    assert address.kind is Kind.SENTINEL
    assert address.hosts == (("a", 1), ("b", 26379), ("::1", 3))
    assert (address.service, address.db, address.password) == ("primary", 4, "secret")


def test_a_cluster() -> None:
    address = parse("rediss+cluster://a:1,b:2?ssl_ca_certs=/ca.pem&ssl_check_hostname=false")
    assert (address.kind, address.hosts) == (Kind.CLUSTER, (("a", 1), ("b", 2)))
    assert address.tls_options == {"ssl_ca_certs": "/ca.pem", "ssl_check_hostname": False}


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "no scheme"),
        ("localhost:6379", "the scheme 'localhost'"),
        ("http://localhost", "the scheme 'http'"),
        ("redis+ring://localhost", r"the scheme 'redis\+ring'"),
        ("redis://", "a host, as in .*; got none"),
        ("redis://localhost:0", "between 1 and 65535 behind 'localhost'"),
        ("redis://localhost:99999", "between 1 and 65535 behind 'localhost'"),
        ("redis://localhost:port", "between 1 and 65535 behind 'localhost'"),
        ("redis://localhost/mail", "one database number; got 'mail'"),
        ("redis://localhost/-1", "one database number; got '-1'"),
        ("redis://localhost/1?db=2", "one database number; got '2' and '1'"),
        ("redis://a,b", r"one host, or redis\+sentinel.*; got 2 hosts"),
        ("redis://localhost?color=red", "only db after '\\?'; got 'color'"),
        ("redis://localhost/0#x", "no fragment"),
        ("unix://", "absolute path"),
        ("unix://run/redis.sock", "absolute path"),
        ("redis+sentinel://a", "/service"),
        ("redis+cluster://a/1", "database 0"),
        ("redis://[::1", "cannot be read"),
        ("redis://localhost\n/0", "a line end"),
    ],
)
def test_a_bad_address_says_what_was_wanted_and_what_came(url: str, complaint: str) -> None:
    with pytest.raises(InvalidUrl, match=complaint) as refused:
        parse(url)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:hunter2@host:bad",
        "redis://me:hunter2@host/bad",
        "redis://me:hunter2@/0",
        "redis://me:hunter2@host?x=1",
        "ftp://me:hunter2@host",
        "redis://me:hunter2@[::1",
    ],
)
def test_no_complaint_tells_the_password(url: str) -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse(url)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:hunter2@host:6379/0",
        "unix://me:hunter2@/run/s?db=0",
        "rediss+sentinel://:hunter2@[::1]:1,b:2/primary/0",
        "redis+cluster://me:hunter2@a:1",
    ],
)
def test_an_address_shown_hides_only_the_password(url: str) -> None:
    assert str(parse(url)) == repr(parse(url)) == url.replace("hunter2", "***")


@given(st.text(max_size=60) | st.from_regex(r"redis(s|\+cluster|\+sentinel)?://.{0,40}"))
def test_any_text_is_an_address_or_an_error_of_one_line(text: str) -> None:
    with contextlib.suppress(InvalidUrl):
        assert str(parse(text))


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2",
        "redis://user:hunter2",
        "redis://:hun/ter2@localhost",
        "redis://:hunter2?@localhost",
        "redis://:hunter2#@localhost",
    ],
)
def test_a_password_in_the_wrong_place_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidUrl) as refused:
        parse(url)

    assert "hun" not in str(refused.value)
