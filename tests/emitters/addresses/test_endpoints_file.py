"""Endpoints files and loopback plans."""

from __future__ import annotations

import contextlib
import ipaddress
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from emitters.addresses import Addresses, ServiceAddresses, from_json, loopback, peers
from emitters.errors import EmitError

PROGRAM = dsl.load_text(
    """app test
external office { cidr "10.9.0.0/16" }
service search, geo { http 8000 }
call office, geo -> search
"""
)
NETWORK = ipaddress.ip_network("10.1.0.4")


def test_an_endpoints_file_is_read_in_canonical_order() -> None:
    data = {
        "services": {"search": {"addresses": ["fd00::1", "10.0.0.2", "10.0.0.1"], "pods": ["10.1.0.1", "10.1.0.1"]}},
        "externals": {"office": {"addresses": ["10.10.0.0/16", "10.11.0.1"]}},
    }
    found = from_json(b"\xef\xbb\xbf" + json.dumps(data).encode(), PROGRAM)
    assert found.services == {"search": ServiceAddresses(("10.0.0.1", "10.0.0.2", "fd00::1"), ("10.1.0.1",))}
    assert found.externals == {"office": ("10.10.0.0/16", "10.11.0.1")}
    assert [str(network) for network in peers(PROGRAM, found, "office")] == [
        "10.9.0.0/16",
        "10.10.0.0/16",
        "10.11.0.1/32",
    ]
    assert found.service_addresses("geo") == found.pod_addresses("office") == ()


def test_ipv4_that_is_written_as_ipv6_is_ipv4() -> None:
    data = {
        "services": {"search": {"pods": ["::ffff:10.1.0.1", "10.1.0.1", "::ffff:0a01:2"], "unready": ["10.1.0.2"]}},
        "externals": {"office": {"addresses": ["::ffff:10.10.0.0/112", "::fffe:0:0/95", "::/0"]}},
    }
    found = from_json(json.dumps(data).encode(), PROGRAM)
    assert found.services["search"] == ServiceAddresses((), ("10.1.0.1", "10.1.0.2"), ("10.1.0.2",))
    assert found.externals["office"] == ("10.10.0.0/16", "::/0", "::fffe:0:0/95")


def test_pods_that_are_not_ready_are_pods_and_are_not_chosen_unless_none_is() -> None:
    def read(*unready: str) -> Addresses:
        pods = ["10.1.0.2", "fd00::2", "10.1.0.1", "fd00:0::1"]
        return from_json(json.dumps({"services": {"search": {"pods": pods, "unready": unready}}}).encode(), PROGRAM)

    pods = ("10.1.0.1", "10.1.0.2", "fd00::1", "fd00::2")
    for unready, ready in (
        ((), pods),
        (("10.1.0.2",), ("10.1.0.1", "fd00::1", "fd00::2")),
        (("10.1.0.2", "fd00::0:2", "10.1.0.2"), ("10.1.0.1", "fd00::1")),
        (pods, pods),
    ):
        found = read(*unready)
        assert found.ready_addresses("search") == ready
        assert found.pod_addresses("search") == pods
        assert found.replicas("search") == pods[:2]
        assert len(peers(PROGRAM, found, "search")) == 4
    assert read().ready_addresses("geo") == read().ready_addresses("office") == ()


PODS = ("10.1.0.1", "10.1.0.2", "10.1.0.3")


def test_pods_that_are_apart_are_pods_and_are_never_chosen() -> None:
    def read(apart: tuple[str, ...], *unready: str) -> Addresses:
        located = {"pods": PODS, "unready": unready, "apart": apart}
        return from_json(json.dumps({"services": {"search": located}}).encode(), PROGRAM)

    for apart, unready, ready in (
        ((), (), PODS),
        (PODS[:1], (), PODS[1:]),
        (PODS[:1], PODS[1:2], PODS[2:]),
        (PODS[:1], PODS[1:], PODS[1:]),  # none of the others is ready
        (PODS[:1], PODS, PODS[1:]),
        (PODS, (), ()),
        (PODS, PODS, ()),
    ):
        endpoints = read(apart, *unready)
        assert endpoints.ready_addresses("search") == ready
        assert endpoints.pod_addresses("search") == PODS
        assert len(peers(PROGRAM, endpoints, "search")) == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b'{"services": {"search": {"pods": ["10.1.0.1"], "apart": ["10.1.0.2"]}}}',
            "`services.search.apart` has the pod `10.1.0.2`, which is not one of its `pods`",
        ),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"services": ' + b"[" * 100_000, "nested too deeply"),
        (b"[]", "not a JSON object"),
        (b'{"service": {}}', "unknown field `service` (line 1)"),
        (b'{"services": {"serch": {}}}', "unknown name `serch`"),
        (b'{"services": {"geo": {}, "search": {"pods": ["10.1.0.1"]}, "geo": {}}}', "`services` has `geo` twice"),
        (b'{"services": {"geo": {"pods": ["10.1.0.1"], "pods": []}}}', "`services.geo` has `pods` twice"),
        (
            b'{"services": {"search": {"pod": []}}}',
            "unknown field `pod`",
        ),
        (b'{"services": {"search": {"pods": "10.0.0.1"}}}', "`services.search.pods` must be a list"),
        (b'{"services": {"search": {"pods": ["10.0.0.0/8"]}}}', "not an address"),
        (b'{"services": {"search": {"pods": ["fe80::1%eth0"]}}}', "not an address"),
        (b'{"services": {"search": {"pods": [7]}}}', "`services.search.pods[0]` must be a string"),
        (b'{"services": {"search": {"pods": ["0.0.0.0"]}}}', "`0.0.0.0`, which is the address of no host"),
        (b'{"services": {"search": {"addresses": ["::"]}}}', "`::`, which is the address of no host"),
        (b'{"services": {"search": {"pods": ["::ffff:0.0.0.0"]}}}', "which is the address of no host"),
        (b'{"services": {"search": {"pods": ["224.0.0.1"]}}}', "which is the address of no host"),
        (b'{"services": {"search": {"pods": ["ff02::1"]}}}', "which is the address of no host"),
        (b'{"services": {"search": {"pods": ["255.255.255.255"]}}}', "which is the address of no host"),
        (b'{"externals": {"office": {"addresses": ["::/128"]}}}', "which is the address of no host"),
        (b'{"services": {"search": {"pods": [], "unready": "10.1.0.1"}}}', "`services.search.unready` must be a list"),
        (b'{"services": {"search": {"pods": ["10.1.0.1"], "unready": ["10.1.0.0/24"]}}}', "not an address"),
        (
            b'{"services": {"search": {"pods": ["10.1.0.1"], "unready": ["10.1.0.1", "10.1.0.2"]}}}',
            "`services.search.unready` has the pod `10.1.0.2`, which is not one of its `pods`",
        ),
        (b'{"services": null}', "`services` must be an object"),
        (b'{"services": {"search": {"pods": null}}}', "`services.search.pods` must be a list"),
        (b'{"externals": {"office": {"addresses": [], "unready": []}}}', "unknown field `unready`"),
        (b'{"externals": {"office": {"addresses": ["10.0.0.1/8"]}}}', "not an address or a network"),
        (b'{"externals": {"office": {"addresses": ["api.example"]}}}', "not an address or a network"),
    ],
)
def test_bad_endpoints_files(data: bytes, message: str) -> None:
    with pytest.raises(EmitError) as caught:
        from_json(data, PROGRAM)
    assert all(found.code == "ADM712" for found in caught.value.diagnostics)
    assert message in caught.value.diagnostics[0].message


def test_all_that_is_wrong_is_said_at_once_and_names_are_suggested() -> None:
    with pytest.raises(EmitError) as caught:
        from_json(b'{"services": {"serch": {}, "geo": {"pods": ["x", "y"]}}}', PROGRAM)
    assert len(caught.value.diagnostics) == 3
    assert "did you mean `search`?" in {found.hint for found in caught.value.diagnostics}


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_bytes_end_in_anything_but_findings(data: bytes) -> None:
    with contextlib.suppress(EmitError):
        from_json(data)


LISTED = st.lists(
    st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1", "::ffff:10.0.0.1"]), max_size=3
) | st.sampled_from([None, "10.0.0.1", [["10.0.0.1"]], ["10.0.0.1/32"], [7]])
FILES = st.dictionaries(
    st.sampled_from(["search", "geo"]),
    st.dictionaries(st.sampled_from(["addresses", "pods", "unready", "other"]), LISTED),
).map(lambda services: json.dumps({"services": services}).encode())


def read(data: bytes, before: Addresses | None) -> Addresses | list[str]:
    try:
        return from_json(data, PROGRAM, before=before)
    except EmitError as error:
        return [found.message for found in error.diagnostics]


@given(FILES, FILES)
def test_what_was_read_earlier_changes_nothing_of_the_result(earlier: bytes, data: bytes) -> None:
    before = read(earlier, None)
    known = before if isinstance(before, Addresses) else None
    assert read(data, known) == read(data, None)


def test_a_service_that_is_as_before_is_not_examined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    services = {"search": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1", "10.1.0.2"]}, "geo": {"pods": ["10.1.0.3"]}}
    before = from_json(json.dumps({"services": services}).encode(), PROGRAM)
    services["geo"] = {"pods": ["10.1.0.4"]}
    examined = []
    monkeypatch.setattr("emitters.addresses.endpoints_file.network", lambda text, **_: examined.append(text) or NETWORK)
    found = from_json(json.dumps({"services": services}).encode(), PROGRAM, before=before)
    assert examined == ["10.1.0.4"]
    assert found.services["search"] is before.services["search"]


def test_as_many_addresses_as_a_file_may_have_count_also_where_they_are_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = json.dumps({"services": {"search": {"pods": ["10.1.0.1", "10.1.0.2"]}, "geo": {"pods": ["10.1.0.3"]}}})
    before = from_json(data.encode(), PROGRAM)
    monkeypatch.setattr("emitters.addresses.endpoints_file.MAX_ADDRESSES", 2)
    with pytest.raises(EmitError, match="more than 2 addresses"):
        from_json(data.encode(), PROGRAM, before=before)


def test_a_loopback_plan_gives_everything_an_address_of_its_own() -> None:
    found = loopback(PROGRAM)
    assert found == loopback(PROGRAM)
    everything = [
        *(address for located in found.services.values() for address in (*located.addresses, *located.pods)),
        *(address for addresses in found.externals.values() for address in addresses),
        *found.egress.values(),
    ]
    assert len(set(everything)) == len(everything) == 7
    assert all(address.startswith("127.") and not address.startswith("127.0.") for address in everything)
