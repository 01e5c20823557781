"""Who is who in a cluster: each token by itself, and what ends streams."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from admc.kubernetes.cluster.identity.pods import PodIdentities
from tests.cluster.identity.cluster import AUDIENCE, CREATED, RATE, Cluster, caller, cluster, token
from tests.cluster.objects import pod, service
from tests.work import function_calls
from xds_server.transport.client import Admission, DeniedError, NotYetError


def denied(made: Cluster, bearer: str | None) -> DeniedError:
    with pytest.raises(DeniedError) as caught:
        made.identifier.identify(caller(bearer))
    assert bearer is None or bearer not in str(caught.value)
    return caught.value


def final(made: Cluster, bearer: str | None) -> tuple[str, str]:
    error = denied(made, bearer)
    assert not isinstance(error, NotYetError), error
    return error.reason, str(error)


async def test_the_service_is_the_one_that_selects_the_pod() -> None:
    made = await cluster()
    expires = int(time.time()) + 600
    found = made.identifier.identify(caller(token(exp=expires), claims="search"))
    assert found == Admission("rate", "pod shop/rate-1", float(expires), "rate-1")


async def test_shared_accounts_do_no_harm() -> None:
    made = await cluster()
    made.pod(None, pod("search-1", account="shared", labels={"app": "search"}))
    assert made.identifier.identify(caller(token("search-1"))).group == "search"
    assert made.identifier.identify(caller(token("rate-1"))).group == "rate"


@pytest.mark.parametrize(
    ("bearer", "said"),
    [
        (None, "it has no token"),
        ("a.b.c", "no signed JSON Web Token"),
        (token(aud=["other"]), f"another audience than `{AUDIENCE}`"),
        (token(exp=int(time.time()) - 60), "its token has expired"),
        (token(**{"kubernetes.io": None}), "its token was made for no pod"),
        (token(**{"kubernetes.io": {"namespace": "shop", "pod": "rate-1"}}), "its token was made for no pod"),
        (token(**{"kubernetes.io": {"namespace": "shop", "node": {"name": "n", "uid": "u"}}}), "made for no pod"),
        (token(sub="system:serviceaccount:other:shared"), "in two namespaces"),
        (token(account="admin"), "runs as another service account"),
        (token(sub="system:node:n"), "not that of a service account"),
    ],
)
async def test_other_tokens_are_refused(bearer: str | None, said: str) -> None:
    assert said in final(await cluster(), bearer)[1]


async def test_tokens_count_over_tls_alone() -> None:
    made = await cluster()
    plain = replace(caller(token()), auth={})
    with pytest.raises(DeniedError, match="only over TLS"):
        made.identifier.identify(plain)


async def test_a_pod_that_the_watch_has_not_shown_comes_again() -> None:
    made = await cluster()
    assert isinstance(denied(made, token("rate-2")), NotYetError)
    made.pod(None, pod("rate-2", account="shared"))
    assert made.identifier.identify(caller(token("rate-2"))).node == "rate-2"


async def test_a_pod_that_is_gone_is_refused() -> None:
    made = await cluster()
    made.pod(RATE, None)
    assert final(made, token()) == ("gone", "the pod `shop/rate-1` of its token is gone")


async def test_a_pod_that_has_ended_is_refused() -> None:
    made = await cluster()
    made.pod(RATE, replace(RATE, is_over=True))
    assert final(made, token())[0] == "gone"


async def test_another_pod_with_the_same_name() -> None:
    """A StatefulSet gives a new pod the name of the one that is gone."""
    made = await cluster()
    later = replace(RATE, uid="uid-later", created="2026-11-23T08:30:00Z")
    made.pod(RATE, later)
    assert final(made, token())[0] == "gone"
    assert made.identifier.identify(caller(token(uid="uid-later", iat=CREATED + 1801))).group == "rate"


async def test_another_pod_with_the_same_name_after_a_restart_of_the_server() -> None:
    made = await Cluster().with_keys()
    made.services(service("rate"))
    made.pod(None, RATE)
    assert final(made, token(uid="uid-earlier", iat=CREATED - 60))[0] == "gone"
    # Of the next pod with that name, which the watch has not shown yet.
    assert isinstance(denied(made, token(uid="uid-later", iat=CREATED + 60)), NotYetError)


async def test_a_pod_that_no_service_selects() -> None:
    made = await cluster()
    made.pod(None, pod("other", account="shared", labels={"app": "other"}))
    assert final(made, token("other")) == ("unmapped", "no Service of the program selects the pod `shop/other`")
    made.shown.services.synced.clear()
    assert isinstance(denied(made, token("other")), NotYetError)


async def test_a_pod_of_two_services() -> None:
    made = await Cluster().with_keys()
    made.services(service("rate"), service("search", selector={"tier": "web"}))
    made.pod(None, pod("rate-1", account="shared", labels={"app": "rate", "tier": "web"}))
    assert final(made, token()) == (
        "ambiguous",
        "the pod `shop/rate-1` belongs to `rate` and `search`, and has one ADM",
    )


async def test_administrators_are_accounts() -> None:
    made = await cluster()
    assert made.identifier.may_administer(caller(token(sub="system:serviceaccount:ops:admin")))
    assert not made.identifier.may_administer(caller(token()))
    assert not made.identifier.may_administer(caller())


# ---- what ends streams ----


async def concerned(source: PodIdentities) -> list[str] | None:
    found = await asyncio.wait_for(source.changed(), 5)
    return None if found is None else sorted(found)


async def quiet(source: PodIdentities) -> bool:
    try:
        await asyncio.wait_for(source.changed(), 0.3)
    except TimeoutError:
        return True
    return False


async def test_the_end_of_a_pod_concerns_its_service() -> None:
    made = await cluster()
    await concerned(made.source)
    made.pod(RATE, None)
    assert await concerned(made.source) == ["rate"]
    assert await quiet(made.source)


async def test_other_labels_concern_both_services() -> None:
    made = await cluster()
    await concerned(made.source)
    made.pod(RATE, replace(RATE, labels={"app": "search"}))
    assert await concerned(made.source) == ["rate", "search"]


async def test_new_pods_and_readiness_end_no_stream() -> None:
    made = await cluster()
    await concerned(made.source)
    made.pod(None, pod("rate-2"))
    made.pod(RATE, replace(RATE, is_ready=False, addresses=("10.1.0.9",), is_terminating=True))
    assert await quiet(made.source)


async def test_changes_that_are_close_are_one() -> None:
    made = await cluster()
    made.pod(None, pod("search-1", "search"))
    await concerned(made.source)
    made.pod(RATE, None)
    made.pod(pod("search-1", "search"), None)
    assert await concerned(made.source) == ["rate", "search"]
    assert await quiet(made.source)


async def test_a_pod_stays_gone_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.kubernetes.cluster.core.state.REMEMBERED", 3)
    made = await cluster()
    for number in range(8):
        short = pod(f"p{number}")
        made.pod(None, short)
        made.pod(short, None)
    assert isinstance(denied(made, token("p1")), NotYetError)
    assert final(made, token("p3"))[0] == "gone"


async def test_looking_again_at_a_client_is_cheap() -> None:
    made = await cluster()
    who = caller(token())
    made.identifier.identify(who)
    assert function_calls(lambda: made.identifier.identify(who)) < 50
