"""Names of Services for the pods: a DNS server that answers from Services and EndpointSlices, over UDP."""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.cluster.node.objects import Object

DOMAIN: Final = "cluster.local"
SECONDS: Final = 5
_TYPES: Final = {1: 4, 28: 6}
"""A and AAAA, by the version of their addresses."""
_NO_SUCH_NAME: Final = 3


def names(services: Iterable[Object], slices: Iterable[Object]) -> dict[str, list[str]]:
    """The addresses of each name: those of the Service, or of its endpoints where it is headless."""
    found: dict[str, list[str]] = {}
    headless = set()
    for service in services:
        own = _name(service, service["metadata"]["name"])
        addresses = [each for each in service["spec"].get("clusterIPs") or () if each != "None"]
        found[own] = addresses
        if not addresses:
            headless.add(own)
    for part in slices:
        own = _name(part, (part["metadata"].get("labels") or {}).get("kubernetes.io/service-name", ""))
        if own not in headless:
            continue
        for endpoint in part.get("endpoints") or ():
            if endpoint.get("conditions", {}).get("ready", True):
                found[own] += endpoint["addresses"]
                if "hostname" in endpoint:
                    found.setdefault(f"{endpoint['hostname']}.{own}", []).extend(endpoint["addresses"])
    return found


def serve(address: str, known: Callable[[], dict[str, list[str]]]) -> None:
    """Answers until the process ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            question, client = server.recvfrom(4096)
            try:
                reply = answer(question, known())
            except (struct.error, IndexError, UnicodeDecodeError):
                continue
            server.sendto(reply, client)


def answer(question: bytes, known: dict[str, list[str]]) -> bytes:
    """The reply to one question. Raises `struct.error`, `IndexError` or `UnicodeDecodeError` for what is none."""
    labels, at = [], 12
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("ascii"))
        at += length + 1
    (kind,) = struct.unpack_from("!H", question, at + 1)
    asked = question[12 : at + 5]
    addresses = known.get(".".join(labels).lower())
    records = b""
    count = 0
    for text in addresses or ():
        own = ipaddress.ip_address(text)
        if _TYPES.get(kind) == own.version:
            records += struct.pack("!HHHIH", 0xC00C, kind, 1, SECONDS, len(own.packed)) + own.packed
            count += 1
    flags = 0x8580 | (0 if addresses is not None else _NO_SUCH_NAME)
    return question[:2] + struct.pack("!HHHHH", flags, 1, count, 0, 0) + asked + records


def _name(each: Object, service: str) -> str:
    return f"{service}.{each['metadata']['namespace']}.svc.{DOMAIN}"
