"""The answers of the node's DNS server, without a node."""

from __future__ import annotations

import ipaddress
import struct
from typing import Any

import pytest

from tests.cluster.node.dns import answer, names

A, AAAA = 1, 28


def _service(name: str, *addresses: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"clusterIPs": list(addresses)}}


def _slice(service: str, *endpoints: dict[str, Any]) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service}
    return {"metadata": {"name": "x", "namespace": "shop", "labels": labels}, "endpoints": list(endpoints)}


def _ask(known: dict[str, list[str]], name: str, kind: int) -> tuple[int, list[str]]:
    """The code of the reply, and its addresses."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)
    reply = answer(question, known)
    number, flags, _, count, _, _ = struct.unpack_from("!HHHHHH", reply)
    assert number == 7
    size = {A: 4, AAAA: 16}[kind]
    records = reply[len(question) :]
    assert len(records) == count * (12 + size)
    found = [records[index * (12 + size) + 12 : (index + 1) * (12 + size)] for index in range(count)]
    return flags & 15, [str(ipaddress.ip_address(each)) for each in found]


KNOWN = names(
    [_service("web", "10.96.0.5", "fd00:96::5"), _service("db", "None"), _service("empty", "None")],
    [
        _slice("web", {"addresses": ["10.0.0.9"]}),
        _slice(
            "db",
            {"addresses": ["10.0.0.1"], "hostname": "db-0"},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": False}},
        ),
    ],
)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("web.shop.svc.cluster.local", A, (0, ["10.96.0.5"])),
        ("WEB.shop.svc.cluster.local", AAAA, (0, ["fd00:96::5"])),
        ("db.shop.svc.cluster.local", A, (0, ["10.0.0.1"])),
        ("db-0.db.shop.svc.cluster.local", A, (0, ["10.0.0.1"])),
        ("db.shop.svc.cluster.local", AAAA, (0, [])),
        ("empty.shop.svc.cluster.local", A, (0, [])),
        ("web.other.svc.cluster.local", A, (3, [])),
        ("web", A, (3, [])),
    ],
)
def test_answers(name: str, kind: int, expected: tuple[int, list[str]]) -> None:
    assert _ask(KNOWN, name, kind) == expected
