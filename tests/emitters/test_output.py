"""What `--emit` writes: which files, the same bytes every time, and what is in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import dsl
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import BOOTSTRAP, static_json
from emitters.envoy.messages.typed import message, to_json
from emitters.errors import EmitError
from emitters.output import files
from solver.place import place

GOLDEN = Path(__file__).parent / "envoy" / "golden"
TEXT = """app shop
external internet
service web { http 80 -> 8080 }
service cart { grpc 81 -> 8081 }
service store { tcp 82 -> 8082 }
call internet -> web
call web -> cart
call cart -> store

policy quota = rate_limit(requests: 10, per: 1s) on web -> cart when path starts_with "/cart."
policy quick = timeout(after: 250ms) on web -> cart
policy again = retry(attempts: 2) on web -> cart
@ingress
policy readers = allow(callers: [cart]) on * -> store
"""
ADDRESSES = Addresses(
    services={
        "web": ServiceAddresses(("10.96.0.1",), ("10.1.0.1",)),
        "cart": ServiceAddresses(("10.96.0.2", "fd00::2"), ("10.1.0.2", "10.1.0.3")),
        "store": ServiceAddresses((), ("10.1.0.4",)),
    }
)


def emitted(mode: Mode) -> dict[str, bytes]:
    program = dsl.load_text(TEXT)
    return files(program, place(program), loopback(program) if mode is Mode.EXPLICIT else ADDRESSES, mode)


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        (Mode.EXPLICIT, "web/bootstrap.yaml"),
        (Mode.EXPLICIT, "store/bootstrap.yaml"),
        (Mode.REDIRECT, "web/bootstrap.yaml"),
        (Mode.REDIRECT, "store/bootstrap.yaml"),
        (Mode.REDIRECT, "web/bootstrap-xds.yaml"),
        (Mode.REDIRECT, "web/interception.json"),
    ],
)
def test_golden(mode: Mode, path: str) -> None:
    golden = GOLDEN / f"{mode}-{path.replace('/', '-')}"
    assert emitted(mode)[path] == golden.read_bytes(), f"{golden.name} differs: see the README beside it"


def test_the_files_of_an_emission() -> None:
    explicit, redirect = emitted(Mode.EXPLICIT), emitted(Mode.REDIRECT)
    both = {f"{service}/{name}" for service in ("web", "store") for name in ("bootstrap.yaml", "bootstrap-xds.yaml")}
    assert set(explicit) == both
    rules = ("interception.json", "interception.sh", "iptables.rules", "ip6tables.rules")
    assert set(redirect) == both | {f"{service}/{name}" for service in ("web", "store") for name in rules}
    assert list(redirect) == sorted(redirect)
    assert emitted(Mode.REDIRECT) == redirect, "the same input gives the same bytes"
    assert json.loads(redirect["web/interception.json"])["egress"]


def test_a_service_of_any_name_has_its_folder_for_itself() -> None:
    program = dsl.load_text(
        """app test
service kubernetes { http 80 }
service b { http 80 }
call kubernetes -> b
policy log = access_log() on * -> b
policy quick = timeout(after: 1s) on kubernetes -> b
pin log at egress
"""
    )
    found = files(program, place(program), loopback(program), Mode.EXPLICIT)
    assert sorted(found) == [
        "kubernetes/bootstrap-xds.yaml",
        "kubernetes/bootstrap.yaml",
        "network-policies.yaml",
    ]


def test_a_bootstrap_that_is_whole_refers_to_nothing_outside() -> None:
    for path, content in {**emitted(Mode.EXPLICIT), **emitted(Mode.REDIRECT)}.items():
        if path.endswith("bootstrap.yaml"):
            assert b"ads" not in content.split()
            assert b"config_discovery" not in content
            assert b"rds:" not in content
            assert "dynamic_resources" not in yaml.safe_load(content)


@pytest.mark.parametrize("mode", Mode)
def test_a_bootstrap_that_is_whole_is_a_message_in_canonical_order(mode: Mode) -> None:
    program = dsl.load_text(TEXT)
    addresses = loopback(program) if mode is Mode.EXPLICIT else ADDRESSES
    for resources in emit(program, place(program), addresses, mode):
        assert json.dumps(static_json(resources)) == json.dumps(to_json(message(BOOTSTRAP, static_json(resources))))


def test_the_admin_interface_is_for_loopback_and_shows_only() -> None:
    for path, content in {**emitted(Mode.EXPLICIT), **emitted(Mode.REDIRECT)}.items():
        if "bootstrap" in path:
            admin = yaml.safe_load(content)["admin"]
            assert admin["address"]["socket_address"]["address"].startswith("127.")
            assert [page for page in PAGES if _shown(admin["allow_paths"], page)] == PAGES[:4]


PAGES = ["/ready", "/stats?filter=a", "/stats/prometheus", "/config_dump?resource=x"]
PAGES += ["/quitquitquit", "/logging?level=off", "/reset_counters", "/drain_listeners", "/runtime_modify?a=b"]
PAGES += [f"/stats/recentlookups/{action}" for action in ("enable", "disable", "clear")]


def _shown(allowed: list[dict[str, Any]], page: str) -> bool:
    return any(
        page.startswith(item["prefix"]) if "prefix" in item else re.fullmatch(item["safe_regex"]["regex"], page)
        for item in allowed
    )


def test_who_dials_what() -> None:
    program = dsl.load_text(TEXT)
    placement = place(program)
    addresses = loopback(program)
    found = {(dial.source, dial.destination): dial for dial in dials(program, placement, addresses)}
    listening = {(bind.service, bind.number): bind for bind in binds(program, placement, addresses)}
    assert found["internet", "web"].address == listening["web", 80].address
    assert found["web", "cart"].egress
    assert found["web", "cart"].address not in addresses.service_addresses("cart")
    assert listening["cart", 81].address in addresses.service_addresses("cart")
    assert found["cart", "store"].ingress
    assert (listening["store", 82].address, listening["store", 82].port) == (addresses.pod_addresses("store")[0], 8082)


def test_a_destination_without_any_address_is_refused() -> None:
    program = dsl.load_text(TEXT)
    without = Addresses({name: located for name, located in ADDRESSES.services.items() if name != "cart"})
    with pytest.raises(EmitError) as caught:
        files(program, place(program), without, Mode.REDIRECT)
    (found,) = caught.value.diagnostics
    assert found.code == "ADM717"
    assert "`cart`" in found.message
    assert found.span is not None
