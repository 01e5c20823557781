"""The probes that the ADMs of a service answer: whose they are, how many, and where the process is asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import dsl
from admc.kubernetes.cluster.core import mismatches
from admc.kubernetes.cluster.core.probes import learned
from emitters.addresses import from_json
from emitters.health_probes import MAX_PROBES, Probe, probes_of
from emitters.interception.pod import PodCaptures
from tests.cluster.following import Following
from tests.cluster.objects import pod, service

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Pod

PROGRAM = dsl.load_text("""\
app shop
service search { http 80 -> 8080  namespace shop }
service rate { http 9000  namespace shop }
call search -> rate
""")
TIMES = ("2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z", "2026-11-25T08:00:00Z")


def probe(name: str, port: int = 9000, period: int = 10) -> Probe:
    return Probe(f"/probe/http/{port}/0123abcd/{name}", port, (), period, 1)


def following(*pods: Pod) -> Following:
    made = Following(PROGRAM)
    made.services(service("rate", "10.96.0.1"), service("search", "10.96.0.2"))
    made.pods(*pods)
    return made


def answered(made: Following, name: str = "rate") -> list[str]:
    text = made.endpoints.probes.get(name)
    return [] if text is None else [found.path.rpartition("/")[2] for found in probes_of(text).probes]


def test_the_probes_of_all_pods_once_each_and_sorted() -> None:
    one = pod("one", "rate", "10.1.0.1", probes=(probe("ready"), probe("live")))
    other = pod("other", "rate", "10.1.0.2", probes=(probe("live"), probe("new")), is_terminating=True)
    made = following(one, other, pod("search-1", "search", "10.1.0.3", probes=(probe("s", 8080),)))
    assert answered(made) == ["live", "new", "ready"]
    assert answered(made, "search") == ["s"]
    addresses = from_json(made.endpoints.document, PROGRAM, of_several=True)
    assert addresses.probes == made.endpoints.probes
    assert following(other, one).endpoints.probes["rate"] == made.endpoints.probes["rate"]
    made.pod_gone(other.key)
    assert answered(made) == ["live", "ready"]
    made.pod_gone(one.key)
    assert answered(made) == []
    assert "rate" not in json.loads(made.endpoints.document)["probes"]


def test_without_any_probe_the_document_is_as_before() -> None:
    assert "probes" not in json.loads(following(pod("one", "rate", "10.1.0.1")).endpoints.document)


def test_the_pods_keep_their_probes_while_their_service_is_missing() -> None:
    """Its ADMs go on with the configuration that they have, and a liveness probe would restart every process."""
    made = following(pod("one", "rate", "10.1.0.1", adm="shop/rate", probes=(probe("live"),)))
    made.service_gone(service("rate").key)
    assert answered(made) == ["live"]
    made.pods(pod("one", "rate", "10.1.0.1", adm="shop/rate", probes=(probe("live"),), labels={}))
    made.services(service("rate", "10.96.0.1"))
    assert answered(made) == ["live"], "also without the labels"


def test_only_ports_of_the_service_or_that_the_pod_redirects() -> None:
    foreign = (probe("redis", 6379), probe("admin", 15000), probe("live"))
    made = following(pod("one", "rate", "10.1.0.1", probes=foreign))
    assert answered(made) == ["live"]
    assert "port 6379" in learned(made.selection, "rate").fault
    # A plan before this one redirected port 7000.
    captures = PodCaptures(frozenset({7000, 15000}))
    old = pod("old", "rate", "10.1.0.2", captures=captures, probes=(probe("old", 7000), probe("admin", 15000)))
    assert answered(following(old)) == ["old"]


def test_of_too_many_those_of_the_oldest_pods_are_answered() -> None:
    old = pod("z", "rate", "10.1.0.1", created=TIMES[0], probes=(probe("z"),))
    many = pod("a", "rate", "10.1.0.2", created=TIMES[1], probes=tuple(probe(f"{n:02}") for n in range(MAX_PROBES)))
    made = following(many, old)
    assert answered(made) == [*(f"{n:02}" for n in range(MAX_PROBES - 1)), "z"]
    (finding,) = (each for each in mismatches.renewed({}, made.selection, ["rate"])["rate"] if each.code == "ADM954")
    assert "`a`" in str(finding.cause)
    assert f"more than {MAX_PROBES}" in str(finding.cause)
    assert learned(following(old).selection, "rate").fault == ""


def test_a_probe_that_cannot_be_answered_is_a_finding() -> None:
    made = following(pod("one", "rate", "10.1.0.1", probe_fault="livenessProbe: its path is none that admc writes"))
    assert learned(made.selection, "rate").fault == (
        "a probe of the pod `one`: livenessProbe: its path is none that admc writes"
    )


def test_a_path_with_other_times_is_that_of_the_older_pod() -> None:
    """Of a manifest that was edited after its injection."""
    old = pod("b", "rate", "10.1.0.1", created=TIMES[0], probes=(probe("live"),))
    new = pod("a", "rate", "10.1.0.2", created=TIMES[1], probes=(probe("live", period=3),))
    assert [found.period for found in probes_of(learned(following(new, old).selection, "rate").document).probes] == [10]


def test_the_process_is_asked_on_loopback_of_the_pods_first_address() -> None:
    def loopback(*addresses: str) -> str:
        made = following(pod("one", "rate", *addresses, probes=(probe("live"),)))
        return probes_of(made.endpoints.probes["rate"]).address

    assert loopback() == loopback("10.1.0.1", "fd00::1") == "127.0.0.1"
    assert loopback("fd00::1", "10.1.0.1") == "::1"
