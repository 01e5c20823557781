"""What is captured, and what is not: as data."""

from __future__ import annotations

import pytest

from dsl.program import Protocol
from emitters.addresses import Addresses, ServiceAddresses
from emitters.errors import EmitError
from emitters.hops import hops
from emitters.interception.captures import IngressCapture, Interception, Probe, interceptions, original_destinations
from tests.emitters.interception.build import external, placement, port, program, service

SHOP = (
    service("front", port(80, 8080), port(81, 9090, name="admin")),
    service("geo", port(8083, 9083, Protocol.GRPC)),
    service("db", port(27017, protocol=Protocol.TCP)),
    service("registry", port(8500, 8501)),
    external("internet", cidrs=["203.0.113.0/24"]),
    external("stripe", port(443, protocol=Protocol.TCP), hosts=["api.stripe.example"]),
    external("office", port(25, protocol=Protocol.TCP), hosts=["10.9.0.7", "fd09::7"]),
)
ADDRESSES = Addresses(
    services={
        "front": ServiceAddresses(("10.96.0.1",), ("10.1.0.1", "fd10::1")),
        "geo": ServiceAddresses(("10.96.0.2", "fd96::2"), ("10.1.0.3", "10.1.0.2")),
        "db": ServiceAddresses(("10.96.0.3",)),
        "registry": ServiceAddresses((), ("10.1.0.9",)),
    },
    externals={"stripe": ("198.51.100.1",)},
)


def _told(found: Interception) -> list[tuple[str, str, str | None, int]]:
    return [
        (item.destination, item.reached.value, item.network and str(item.network), item.port) for item in found.egress
    ]


def _only(*, calls: list[tuple[str, str]], decisions: dict[tuple[str, str], str], **more: object) -> Interception:
    made = program(SHOP, calls, sorted({name for name, _ in decisions}))
    (found,) = interceptions(made, placement(made, decisions, **more), ADDRESSES)  # type: ignore[arg-type]
    return found


def test_ingress_takes_the_target_port_that_is_enforced_and_no_other() -> None:
    found = _only(calls=[("internet", "front")], decisions={("quota", "front"): "ingress"})
    assert found == Interception("sample", "front", (IngressCapture(8080, ("quota",)),), ())


def test_an_open_decision_takes_every_port_in_its_scope() -> None:
    found = _only(calls=[("internet", "front")], decisions={("guard", "front"): "ingress"}, open_=[("guard", "front")])
    assert [item.port for item in found.ingress] == [8080, 9090]


def test_ports_that_lead_to_one_target_are_one_capture_with_all_policies_in_declared_order() -> None:
    made = program(
        [service("a", port(80, 8080), port(90, 8080, name="other")), external("internet")],
        [("internet", "a", 80), ("internet", "a", 90)],
        ["second", "first"],
    )
    (found,) = interceptions(
        made, placement(made, {("first", "a"): "ingress", ("second", "a"): "ingress"}), Addresses()
    )
    assert found.ingress == (IngressCapture(8080, ("second", "first")),)


def test_egress_takes_service_addresses_by_port_and_pod_addresses_by_target_port() -> None:
    found = _only(calls=[("front", "geo"), ("front", "db")], decisions={("quota", "geo"): "egress"})
    assert found.ingress == ()
    assert _told(found) == [
        ("geo", "service address", "10.96.0.2/32", 8083),
        ("geo", "service address", "fd96::2/128", 8083),
        ("geo", "pod address", "10.1.0.2/32", 9083),
        ("geo", "pod address", "10.1.0.3/32", 9083),
    ]
    assert {item.policies for item in found.egress} == {("quota",)}


def test_a_destination_without_a_stable_address_is_taken_by_port() -> None:
    found = _only(
        calls=[("front", "registry"), ("front", "stripe")],
        decisions={("quota", "registry"): "egress", ("log", "stripe"): "egress"},
    )
    assert _told(found) == [
        ("registry", "port", None, 8500),
        ("registry", "port", None, 8501),
        ("stripe", "port", None, 443),
    ]


def test_an_external_that_is_an_address_is_taken_by_address() -> None:
    found = _only(calls=[("front", "office")], decisions={("log", "office"): "egress"})
    assert _told(found) == [
        ("office", "service address", "10.9.0.7/32", 25),
        ("office", "service address", "fd09::7/128", 25),
    ]


def test_a_service_that_calls_itself_is_captured_by_address_and_refused_otherwise() -> None:
    found = _only(calls=[("front", "front")], decisions={("quota", "front"): "egress"})
    assert _told(found)[-1] == ("front", "pod address", "fd10::1/128", 8080)
    assert found.refused_to_self == (8080,)


def test_services_without_an_adm_have_no_interception() -> None:
    made = program(SHOP, [("front", "geo")])
    assert interceptions(made, placement(made, {}), ADDRESSES) == ()


CALLS = [("internet", "front"), ("front", "geo")]


def _probed(name: str, *probes: Probe) -> Interception:
    made = program(SHOP, CALLS, ["quota"])
    found = interceptions(made, placement(made, {("quota", name): "ingress"}), ADDRESSES, probes={name: probes})
    return found[0]


def test_only_probes_of_captured_ports_need_a_by_pass() -> None:
    assert _probed("geo", Probe("10.0.0.5", 9083), Probe("fd00::0005", 9083)).probes == (
        Probe("10.0.0.5", 9083),
        Probe("fd00::5", 9083),
    )
    assert _probed("front", Probe("10.0.0.5", 9090)).probes == ()


@pytest.mark.parametrize(
    ("name", "probe", "cause"),
    [
        ("geo", Probe("10.0.0.0/24", 9083), "not the address of one node"),
        ("geo", Probe("node-1", 9083), "not the address of one node"),
        ("geo", Probe("0.0.0.0", 9083), "not the address of one node"),
        ("geo", Probe("127.0.0.1", 9083), "not the address of one node"),
        ("geo", Probe("fe80::1%eth0 -j ACCEPT", 9083), "not the address of one node"),
        ("geo", Probe("10.0.0.5", 8083), "no target port"),
        ("front", Probe("10.0.0.5", 8080), "address translation"),
    ],
)
def test_a_by_pass_that_would_let_others_by_is_refused(name: str, probe: Probe, cause: str) -> None:
    with pytest.raises(EmitError) as raised:
        _probed(name, probe)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "ADM791"
    assert cause in (diagnostic.cause or "")


def test_captures_are_sorted_whatever_the_order_of_the_addresses() -> None:
    made = program(SHOP, CALLS, ["quota"])
    placed = placement(made, {("quota", "geo"): "egress"})
    turned = Addresses(
        {name: ServiceAddresses(item.addresses[::-1], item.pods[::-1]) for name, item in ADDRESSES.services.items()}
    )
    assert interceptions(made, placed, turned) == interceptions(made, placed, ADDRESSES)


def test_a_listener_can_tell_whose_a_captured_connection_is() -> None:
    calls = [("front", name) for name in ("geo", "registry", "stripe", "office", "db")]
    decisions = {("quota", name): "egress" for _, name in calls}
    made = program(SHOP, calls, ["quota"])
    placed = placement(made, decisions)
    told = {
        hop.destination: {
            number: [str(network) for network in networks]
            for number, networks in original_destinations(made, hop, ADDRESSES).items()
        }
        for hop in hops(made, placed)["front"]
    }
    assert told == {
        "geo": {8083: ["10.96.0.2/32", "fd96::2/128"], 9083: ["10.1.0.2/32", "10.1.0.3/32"]},
        "registry": {8500: ["10.1.0.9/32"], 8501: ["10.1.0.9/32"]},
        "stripe": {443: ["198.51.100.1/32"]},
        "office": {25: ["10.9.0.7/32", "fd09::7/128"]},
        "db": {27017: ["10.96.0.3/32"]},
    }
    (found,) = interceptions(made, placed, ADDRESSES)
    for name, ports in told.items():
        captured = [item for item in found.egress if item.destination == name]
        for number, networks in ports.items():
            for network in networks:
                assert any(item.port == number and str(item.network or network) == network for item in captured)


def test_without_any_address_no_connection_belongs_to_the_hop() -> None:
    made = program(SHOP, [("front", "stripe")], ["log"])
    (hop,) = hops(made, placement(made, {("log", "stripe"): "egress"}))["front"]
    assert original_destinations(made, hop, Addresses()) == {}
