"""Whom a request comes from, and whom a limit counts."""

import pytest

from waystation.core.clock import HandClock
from waystation.core.errors import RateLimited
from waystation.core.http.addresses import client_of, networks, visitor_address
from waystation.core.http.pace import Pace

TRUSTED = networks(["10.0.0.0/8", "fd00::/8"], "trusted_proxies")
PROXY = "10.0.0.1"


@pytest.mark.parametrize(
    ("forwarded", "visitor"),
    [
        ("192.0.2.43", "192.0.2.43"),
        ("192.0.2.43:47011", "192.0.2.43"),
        ('"192.0.2.43:47011"', "192.0.2.43"),
        ("2001:db8:cafe::17", "2001:db8:cafe::17"),
        ("[2001:db8:cafe::17]", "2001:db8:cafe::17"),
        ("[2001:db8:cafe::17]:4711", "2001:db8:cafe::17"),
        ('"[2001:db8:cafe::17]:4711"', "2001:db8:cafe::17"),
        ("::ffff:192.0.2.43", "::ffff:192.0.2.43"),
        ("192.0.2.43:1, 10.0.0.2:2", "192.0.2.43"),
        ("192.0.2.43, [fd00::1]:443 ,10.0.0.2", "192.0.2.43"),
        ("192.0.2.9, 192.0.2.43:_port", "192.0.2.43"),
        ("unknown", PROXY),
        ("_hidden", PROXY),
        ("192.0.2.43, unknown, 10.0.0.2", "10.0.0.2"),
        ("192.0.2.43:47011:1", PROXY),
        ("[2001:db8::1", "2001:db8::1"),
        ("", PROXY),
        (",", PROXY),
    ],
)
def test_a_hop_is_read_in_every_form_that_proxies_write(forwarded: str, visitor: str) -> None:
    assert visitor_address(PROXY, forwarded, TRUSTED) == visitor
    assert visitor_address("192.0.2.1", forwarded, TRUSTED) == "192.0.2.1"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("a key's name", "a key's name", True),
    ],
)
def test_a_limit_counts_all_addresses_of_one_client_together(
    one: str, other: str, same: bool
) -> None:
    assert (client_of(one) == client_of(other)) is same
    pace = Pace(every_s=1, burst=0, clock=HandClock())
    pace.require(one)
    if not same:
        pace.require(other)
        return
    with pytest.raises(RateLimited):
        pace.require(other)
    with pytest.raises(RateLimited):
        pace.require_left(other, "no")
