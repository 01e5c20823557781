"""Closed destinations: the senders that the objects admit, and the cases that are errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dsl.program import Protocol, Service
from emitters.errors import EmitError
from emitters.kubernetes import kubernetes_name, network_policies, to_yaml
from tests.emitters.interception.build import external, placement, port, program, service
from tests.emitters.kubernetes.schema import check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.program import External

DB = service("mongo_rate", port(27017, protocol=Protocol.TCP), port(8080, 9090, name="admin"))


def objects(
    parties: Iterable[Service | External], calls: Iterable[Any], *closed: str, app: str = "sample"
) -> tuple[dict[str, Any], ...]:
    made = program(parties, calls, ["quota", "limit"], app=app)
    keys = [(name, destination) for destination in closed for name in ("quota", "limit")]
    found = network_policies(made, placement(made, dict.fromkeys(keys, "egress"), open_=keys))
    for item in found:
        check(item)
    return found


def _codes(parties: Iterable[Service | External], calls: Iterable[Any], *closed: str) -> list[str]:
    with pytest.raises(EmitError) as raised:
        objects(parties, calls, *closed)
    return [diagnostic.code for diagnostic in raised.value.diagnostics]


def test_the_whole_object() -> None:
    (found,) = objects(
        [
            DB,
            service("rate", labels={"tier": "back", "name": "rate"}, namespace="shop"),
            service("backup"),
            external("office", cidrs=["10.9.1.1/16", "fd09::/64", "10.8.0.1"]),
        ],
        [
            ("rate", "mongo_rate"),
            ("backup", "mongo_rate"),
            ("backup", "mongo_rate", 8080),
            ("office", "mongo_rate", 8080),
        ],
        "mongo_rate",
    )
    assert found == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": "admc-close-mongo-rate",
            "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": "admc"},
            "annotations": {
                "admc/app": "sample",
                "admc/closes": "mongo_rate",
                "admc/needed-by": "quota, limit",
                "admc/admits": "backup, office, rate",
            },
        },
        "spec": {
            "podSelector": {"matchLabels": {"app": "mongo_rate"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [
                        {"ipBlock": {"cidr": "10.8.0.1/32"}},
                        {"ipBlock": {"cidr": "10.9.0.0/16"}},
                        {"ipBlock": {"cidr": "fd09::/64"}},
                    ],
                    "ports": [{"protocol": "TCP", "port": 9090}],
                },
                {
                    "from": [
                        {
                            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
                            "podSelector": {"matchLabels": {"app": "backup"}},
                        }
                    ],
                    "ports": [{"protocol": "TCP", "port": 9090}, {"protocol": "TCP", "port": 27017}],
                },
                {
                    "from": [
                        {
                            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}},
                            "podSelector": {"matchLabels": {"name": "rate", "tier": "back"}},
                        }
                    ],
                    "ports": [{"protocol": "TCP", "port": 27017}],
                },
                {
                    "ports": [
                        {"protocol": protocol, "port": first, "endPort": last}
                        for protocol in ("TCP", "UDP", "SCTP")
                        for first, last in ((1, 9089), (9091, 27016), (27018, 65535))
                    ]
                },
            ],
        },
    }


def test_no_sender_is_admitted_where_none_is_declared() -> None:
    (found,) = objects([DB, service("rate")], [], "mongo_rate")
    assert ["from" in rule for rule in found["spec"]["ingress"]] == [False]
    assert found["spec"]["policyTypes"] == ["Ingress"]


def test_only_closed_destinations_have_an_object() -> None:
    made = program([DB, service("rate")], [("rate", "mongo_rate")], ["quota"])
    assert network_policies(made, placement(made, {("quota", "mongo_rate"): "egress"})) == ()
    assert to_yaml(()) == ""


def test_yaml_reads_back_as_the_same_objects() -> None:
    found = objects(
        [DB, service("yes", port(1)), service("b")], [("b", "mongo_rate"), ("b", "yes")], "mongo_rate", "yes"
    )
    assert list(yaml.safe_load_all(to_yaml(found))) == list(found)
    assert [item["metadata"]["name"] for item in found] == ["admc-close-mongo-rate", "admc-close-yes"]


def test_names_that_become_one_are_an_error_within_a_namespace() -> None:
    parties = [service("a_b"), service("a-b")]
    assert _codes(parties, [], "a-b", "a_b") == ["ADM781"]
    found = objects([service("a_b"), service("a-b", namespace="other")], [], "a-b", "a_b")
    assert {item["metadata"]["name"] for item in found} == {"admc-close-a-b"}


@pytest.mark.parametrize(
    "wrong",
    [
        service("_"),
        service("x" * 250, labels={"app": "x"}),
        service("_a"),
        service("x" * 64),
        service("a", labels={"tier": "two words"}),
        service("a", labels={"not/a/key": "x"}),
        service("a", labels={"UPPER.example/key": "x"}),
        service("a", labels={"k" * 64: "x"}),
        service("a", namespace="Shop_1"),
    ],
)
def test_what_kubernetes_cannot_name_is_an_error(wrong: Service) -> None:
    assert set(_codes([wrong], [], wrong.name)) == {"ADM782"}


def test_senders_that_look_like_others_are_an_error() -> None:
    host = service("rate", host_network=True)
    assert _codes([DB, host], [("rate", "mongo_rate")], "mongo_rate") == ["ADM783"]
    assert _codes([DB, external("internet")], [("internet", "mongo_rate")], "mongo_rate") == ["ADM783"]


def test_labels_that_select_another_service_are_an_error() -> None:
    sender, stranger = service("a", labels={"t": "x"}), service("b", labels={"t": "x", "u": "y"})
    assert _codes([DB, sender, stranger], [("a", "mongo_rate")], "mongo_rate") == ["ADM784"]
    assert objects([DB, sender, stranger], [("b", "mongo_rate")], "mongo_rate")
    assert objects([DB, sender, stranger], [("a", "mongo_rate"), ("b", "mongo_rate")], "mongo_rate")
    assert _codes([sender, stranger], [], "a") == ["ADM784"]
    elsewhere = service("b", labels={"t": "x"}, namespace="other")
    assert objects([DB, sender, elsewhere], [("a", "mongo_rate")], "mongo_rate")


def test_services_that_share_labels_are_one_finding() -> None:
    twins = [service(name, labels={"tier": "data"}) for name in ("pg_a", "pg_b", "pg_c")]
    with pytest.raises(EmitError) as caught:
        objects(twins, [], "pg_a", "pg_b", "pg_c")
    (finding,) = caught.value.diagnostics
    assert finding.message == 'the labels of `pg_a`, `tier = "data"`, also select the pods of `pg_b`, `pg_c`'
    assert '`labels { app  tier = "data" }`' in (finding.hint or "")


def test_the_label_to_add_is_none_that_is_there() -> None:
    twins = [service(name, labels={"app": "pg", "name": "pg"}) for name in ("pg_a", "pg_b")]
    with pytest.raises(EmitError) as caught:
        objects(twins, [], "pg_a", "pg_b")
    (finding,) = caught.value.diagnostics
    assert '`labels { app-0  app = "pg"  name = "pg" }`' in (finding.hint or "")


def test_a_sender_with_fewer_ports_does_not_get_more_by_anothers_labels() -> None:
    wide, narrow = service("a", labels={"t": "x"}), service("b", labels={"t": "x", "u": "y"})
    calls = [("a", "mongo_rate", 27017), ("a", "mongo_rate", 8080), ("b", "mongo_rate", 27017)]
    assert _codes([DB, wide, narrow], calls, "mongo_rate") == ["ADM784"]


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}(-[A-Za-z0-9_]{1,4}){0,2}", fullmatch=True)


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True), st.randoms(use_true_random=False))
def test_every_object_is_legal_and_names_never_clash_silently(names: list[str], random: Any) -> None:
    services = [service(name, labels={"id": str(index)}) for index, name in enumerate(names)]
    calls = [(a, b) for a in names for b in names if a != b and random.random() < 0.5]
    try:
        found = objects(services, calls, *names)
    except EmitError as error:
        assert {diagnostic.code for diagnostic in error.diagnostics} <= {"ADM781", "ADM782"}  # noqa: PT017
        short = [kubernetes_name(name) for name in names]
        assert len(set(short)) < len(short) or "" in short
        return
    assert [item["metadata"]["annotations"]["admc/closes"] for item in found] == sorted(names)
    assert len({item["metadata"]["name"] for item in found}) == len(names)
    assert objects(services[::-1], calls[::-1], *names) == found


def test_text_of_one_letter_is_quoted() -> None:
    assert to_yaml([{"app": "y"}]) == "---\napp: 'y'\n"
