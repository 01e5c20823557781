"""Which pods lack the redirection that a plan needs, and which proxies a service has: by specs and exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dsl
from admc.compile.pipeline import place_program
from admc.kubernetes.cluster.redirection import Lacking, PodRedirection
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.steps import steps
from emitters.addresses import Addresses
from emitters.interception.pod import PodCaptures
from tests.cluster.objects import pod

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Pod

PROGRAM = """\
app shop
service web  { http 8080  namespace shop }
service cart { http 80 -> 8081  namespace shop }
call web -> cart
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin p at SIDE
"""
AT_EGRESS = PodCaptures(frozenset(), frozenset({80, 8081}))


def placed(side: str) -> Placed:
    program = dsl.load_text(PROGRAM.replace("SIDE", side))
    return Placed(program, place_program(program)[0])


def injected(name: str, captures: PodCaptures = AT_EGRESS, *addresses: str, redirected: bool = True) -> Pod:
    at = addresses or ("10.1.0.1",)
    return pod(name, "web", *at, adm="shop/web", captures=captures, is_redirected=redirected)


def redirection(*pods: Pod) -> PodRedirection:
    def of(service: str) -> tuple[Pod, ...]:
        return pods if service == "web" else ()

    return PodRedirection(of, of)


@pytest.mark.parametrize(
    ("each", "lacks"),
    [
        (injected("a"), False),
        (injected("a", PodCaptures(frozenset(), frozenset({80, 8081, 9000}))), False),
        (injected("a", PodCaptures(frozenset(), frozenset({80}))), True),
        (injected("a", redirected=False), True),
        (pod("a", "web", "10.1.0.1"), True),
        (pod("a", "web"), True),
        (pod("a", "web", "10.1.0.1", adm="shop/cart", captures=AT_EGRESS, is_redirected=True), True),
    ],
)
def test_a_pod_has_what_its_spec_and_its_exit_code_say(each: Pod, lacks: bool) -> None:
    step = steps(placed("ingress"), placed("egress"), b"k")[StepName.PREPARE]
    assert redirection(each).missing(step) == (("web",) if lacks else ())


def test_a_pod_that_has_started_nothing_yet_holds_up_nothing_by_its_exit_code() -> None:
    """One that no node has room for has no address, and may never start."""
    waits = pod("a", "web", adm="shop/web", captures=AT_EGRESS)
    step = steps(placed("ingress"), placed("egress"), b"k")[StepName.PREPARE]
    assert redirection(waits).missing(step) == ()
    other = pod("a", "web", adm="shop/web", captures=PodCaptures())
    assert redirection(other).missing(step) == ("web",)


def test_no_pod_lacks_nothing() -> None:
    step = steps(placed("ingress"), placed("egress"), b"k")[StepName.PREPARE]
    assert redirection().missing(step) == ()


def test_the_first_plan_says_what_its_pods_lack() -> None:
    """It is published at once, without a rollout."""
    found = redirection(injected("a"), pod("b", "web", "10.1.0.2"))
    assert found.text == ""
    found.begin(placed("egress"))
    assert found.lacking == {"web": Lacking(("b",), 2)}
    assert "`web` (1 of 2 pods)" in found.text


def test_what_a_label_needs_replaces_what_the_one_before_needed() -> None:
    found = redirection(pod("b", "web", "10.1.0.2"))
    found.begin(placed("egress"))
    found.ask(placed("ingress"), Addresses())
    assert found.lacking == {}


def test_proxies_are_the_pods_with_an_adm_of_the_service_by_name() -> None:
    pods = (
        injected("a"),
        injected("b", PodCaptures()),
        injected("c", redirected=False),
        pod("d", "web", "10.1.0.4"),
        pod("e", "web", "10.1.0.5", adm="shop/cart", is_redirected=True),
        pod("f", "web", "10.1.0.6", adm="shop/web", is_redirected=True, is_terminating=True),
        pod("g", "web", "10.1.0.7", adm="former_name/web", is_redirected=True),
    )
    assert redirection(*pods).proxies("web") == {"a", "b", "f", "g"}
    assert redirection(*pods).proxies("cart") == frozenset()
