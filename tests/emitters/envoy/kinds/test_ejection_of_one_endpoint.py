"""Whether one endpoint may always be put out: where the program says that there are others."""

from __future__ import annotations

from typing import Any

import pytest

from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.envoy import Mode, emit
from tests.emitters.envoy.support import load

NETWORK = {
    "a": ServiceAddresses(("10.96.0.1",), ("10.1.0.1",)),
    "b": ServiceAddresses(("10.96.0.2",), ("10.1.0.2", "10.1.0.3")),
}
ONE_OF_B = NETWORK | {"b": ServiceAddresses(("10.96.0.2",), ("10.1.0.2",))}
SERVICES = "service a {{ http 80 }}\nservice b {{ http 80  replicas {} }}\ncall a -> b\n"


def _said(text: str, services: dict[str, ServiceAddresses], mode: Mode = Mode.REDIRECT) -> Any:
    program, placement = load(text)
    addresses = Addresses(services) if mode is Mode.REDIRECT else loopback(program)
    (adm,) = emit(program, placement, addresses, mode)
    (found,) = [each for each in adm.clusters.values() if each.HasField("outlier_detection")]
    return found.outlier_detection


@pytest.mark.parametrize("services", [NETWORK, ONE_OF_B], ids=["two are known", "one is known"])
@pytest.mark.parametrize(
    ("replicas", "share", "one"), [(1, 10, False), (2, 10, True), (3, 1, True), (3, 0, False), (3, 100, True)]
)
def test_one_may_be_put_out_where_several_are_declared(
    services: dict[str, ServiceAddresses], replicas: int, share: float, *, one: bool
) -> None:
    policy = f"policy o = outlier_detection(max_ejected: {share}%) on a -> b"
    said = _said(SERVICES.format(replicas) + policy, services)
    assert said.always_eject_one_host.value is one
    assert said.max_ejection_percent.value == int(share)


def test_a_process_that_plays_all_replicas_is_the_only_one() -> None:
    policy = "policy o = outlier_detection() on a -> b"
    assert not _said(SERVICES.format(3) + policy, {}, Mode.EXPLICIT).always_eject_one_host.value


@pytest.mark.parametrize(("hosts", "one"), [('host "192.0.2.1"', False), ('host "192.0.2.1"  host "192.0.2.2"', True)])
def test_one_of_the_addresses_of_an_external_may_be_put_out(hosts: str, *, one: bool) -> None:
    text = f"service a {{ http 80 }}\nexternal shop {{ http 80  {hosts} }}\ncall a -> shop\n"
    said = _said(text + "policy o = outlier_detection() on a -> shop", NETWORK)
    assert said.always_eject_one_host.value is one
