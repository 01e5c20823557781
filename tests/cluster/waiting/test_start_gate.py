"""When a pod is known: from its addresses, what is published, and what proxies have acknowledged."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.start_gate import (
    AWAY_SECONDS,
    SETTLE_SECONDS,
    Adm,
    Decision,
    Memory,
    Proxy,
    ServerView,
    WaitingPod,
    decide,
    line,
)
from tests.properties import examples

POD = WaitingPod("uid", "web", ("10.0.0.1", "fd00::0001"))
BEGAN = Memory(100.0)


def seen(*proxies: Proxy, published: int = 5, away: int = 0, **others: Any) -> ServerView:
    listed = {"web": {"10.0.0.1", "fd00::1", "10.0.0.9"}}
    needed = {"web": frozenset({"cart"}), "log": frozenset[str]()}
    return ServerView(
        **({"listed": listed, "needed": needed, "adms": {"cart": Adm(published, proxies, away)}} | others)
    )


def settled(pod: WaitingPod, what: ServerView | None, memory: Memory = BEGAN, now: float = 100.0) -> Decision:
    """The decision after the time that workers of proxies have."""
    return decide(pod, what, decide(pod, what, memory, now).memory, now + SETTLE_SECONDS)


def test_a_pod_is_known_when_all_proxies_have_a_snapshot_from_when_its_address_was_published() -> None:
    first = decide(POD, seen(Proxy("a", 4, refuses=False), Proxy("b", 5, refuses=False)), BEGAN, 100.0)
    assert first.waits == ("proxy a of `cart` has not acknowledged it",)
    # A newer snapshot has the address, too: the proxy need not reach the newest one.
    later = seen(Proxy("a", 5, refuses=False), Proxy("b", 6, refuses=False), published=9)
    assert settled(POD, later, first.memory).waits == ()
    # Of a pod that comes now it has to have the one that is the latest now.
    assert settled(POD, later).waits == (
        "proxy a of `cart` has not acknowledged it",
        "proxy b of `cart` has not acknowledged it",
    )


def test_workers_of_a_proxy_have_time_to_apply_what_it_has_acknowledged() -> None:
    what = seen(Proxy("a", 5, refuses=False))
    first = decide(POD, what, BEGAN, 100.0)
    assert first.waits
    assert decide(POD, what, first.memory, 100.0 + SETTLE_SECONDS / 2).waits
    assert not decide(POD, what, first.memory, 100.0 + SETTLE_SECONDS).waits
    # The time begins anew after a look at which it had something else to wait for.
    between = decide(POD, seen(Proxy("b", 4, refuses=False)), first.memory, 100.5).memory
    assert decide(POD, what, between, 100.0 + SETTLE_SECONDS).waits


def test_a_proxy_that_refuses_holds_the_pod_and_is_named() -> None:
    assert settled(POD, seen(Proxy("a", 4, refuses=True))).waits == ("proxy a of `cart` refuses its configuration",)


def test_every_address_has_to_be_published() -> None:
    assert settled(POD._replace(addresses=()), seen()).waits == ("the pod has no address yet",)
    other = POD._replace(addresses=("10.0.0.1", "10.0.0.2"))
    assert settled(other, seen()).waits == ("the address 10.0.0.2 is not published yet",)
    # One that is taken away is published anew later: what proxies acknowledged before is of no use.
    before = decide(POD, seen(Proxy("a", 5, refuses=False)), BEGAN, 100.0).memory
    gone = decide(POD, seen(listed={}), before, 100.0).memory
    again = seen(Proxy("a", 5, refuses=False), published=7)
    assert settled(POD, again, gone).waits == ("proxy a of `cart` has not acknowledged it",)


def test_without_a_plan_a_pod_waits_and_without_a_reader_it_does_not() -> None:
    assert settled(POD, None, now=1e9).waits == ("the server has no plan yet",)
    assert decide(POD._replace(service="log"), seen(), BEGAN, 100.0).waits == ()
    assert decide(POD._replace(service="other"), seen(), BEGAN, 100.0).waits == ()


def test_an_adm_without_a_snapshot_or_without_proxies() -> None:
    assert settled(POD, seen(published=0)).waits == ("`cart` has no configuration yet",)
    assert settled(POD, seen()).waits == ()


def test_proxies_that_are_away_are_waited_for_but_not_for_ever() -> None:
    what = seen(Proxy("a", 5, refuses=False), away=2)
    assert settled(POD, what).waits == ("2 proxies of `cart` not connected",)
    assert settled(POD, what, now=100.0 + AWAY_SECONDS).waits == ()
    # One that is connected and behind is waited for as long as it is there.
    behind = seen(Proxy("a", 4, refuses=False), away=2)
    assert settled(POD, behind, now=1e9).waits == ("proxy a of `cart` has not acknowledged it",)


def test_a_pod_that_no_service_selects_may_be_earlier_than_its_service() -> None:
    loose = POD._replace(service="")
    assert settled(loose, seen()).waits == ("no Service of the program selects this pod",)
    assert settled(loose, seen(), now=100.0 + AWAY_SECONDS).waits == ()


def test_a_line_counts_what_it_does_not_name() -> None:
    assert line(["a", "b"]) == "waits: a; b"
    assert line([str(n) for n in range(8)]) == "waits: 0; 1; 2; 3; 4; and 3 more"


PROXIES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=4)


@given(st.lists(st.tuples(st.booleans(), PROXIES, st.integers(0, 3)), min_size=1, max_size=8))
@examples(200)
def test_no_pod_is_known_while_a_connected_proxy_lacks_every_snapshot_with_its_address(
    looks: list[tuple[bool, list[tuple[str, int, bool]], int]],
) -> None:
    """Snapshots are numbered; the address is in those from the look on at which it was listed."""
    memory, now, number, since = BEGAN, 100.0, 0, None
    for is_listed, found, more in looks:
        number += more
        proxies = tuple(Proxy(node, min(has, number), refuses=refuses) for node, has, refuses in found)
        since = (number if since is None else since) if is_listed else None
        what = seen(*proxies, published=number, **({} if is_listed else {"listed": {}}))
        decision = decide(POD, what, memory, now)
        if not decision.waits:
            assert since is not None
            assert all(proxy.has >= since for proxy in proxies)
        memory, now = decision.memory, now + SETTLE_SECONDS
