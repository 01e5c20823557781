"""Finds addresses that two parties of a program have in common, although only one of them can be there.

One pod hosts one ADM. Two services at one pod address would each have an ADM there: the rules that are loaded last
redirect the connections of both, and no ADM enforces the policies of the other service. An ADM recognises a caller by
its address: two callers at one address are under the policies of both, and a guard that admits one admits the other.

    program, addresses -> [Diagnostic]

A service has all ports of its pods. On the host's network it has only the ports where it listens, and other services of
the node have other ports. Several services may share a service address, at different ports. An outside party is at no
address of a service, with one exception: a party that never calls may be at other ports of a service address or a node.
Two outside parties may be at one address, and a larger network may contain addresses of others.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics
from emitters.addresses.index import literal
from emitters.addresses.model import network

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dsl.program import Program, Service
    from emitters.addresses.model import Addresses

_POD: Final = "a pod"
_SERVICE: Final = "a service address"
_OUTSIDE: Final = "an outside party"
_MAY_BE_LOOPBACK: Final = re.compile(r"(?m)^(?:127\.|::1$)")
"""Finds an address that may be loopback, in a text with an address on each line."""


class _Claim(NamedTuple):
    """The claim of a party to be at an address, in a role (`what`), at some ports; None stands for all ports."""

    name: str
    what: str
    ports: frozenset[int] | None


def check(program: Program, addresses: Addresses, *, redirected: bool) -> tuple[Diagnostic, ...]:
    """The conflicts between addresses, each of which is well-formed by itself. `redirected`: connections are
    redirected. Then a loopback address is the address of no service, since each pod has its own loopback."""
    findings = Diagnostics()
    listed = [text for located in addresses.services.values() for part in located[:2] for text in part]
    if not _are_distinct(program, addresses, listed):
        _find(findings, program, addresses)
    if redirected and _MAY_BE_LOOPBACK.search("\n".join(listed)):
        _loopback(findings, addresses)
    return tuple(findings.items)


def _find(findings: Diagnostics, program: Program, addresses: Addresses) -> None:
    seen: dict[str, tuple[_Claim, ...]] = {}
    reported: set[tuple[str, str]] = set()
    for claim, texts in _claims(program, addresses):
        alone = (claim,)
        for text in texts:
            earlier = seen.get(text)
            if earlier is None:
                seen[text] = alone
                continue
            seen[text] = (*earlier, claim)
            for other in earlier:
                pair = (other.name, claim.name)
                if pair not in reported and _clash(other, claim):
                    reported.add(pair)
                    _report(findings, text, other, claim)


def _are_distinct(program: Program, addresses: Addresses, listed: list[str]) -> bool:
    """Whether no address is listed twice, as in most files. This test takes a tenth of the time of the full search."""
    texts = list(listed)
    for name, external in program.externals.items():
        texts += _single((*external.cidrs, *literal(external.hosts), *addresses.service_addresses(name)))
    return len(set(texts)) == len(texts)


def _claims(program: Program, addresses: Addresses) -> Iterator[tuple[_Claim, Iterable[str]]]:
    """The claims of all parties, each with addresses; in canonical order, services before outside parties."""
    for name, service in program.services.items():
        located = addresses.services.get(name)
        if located is not None:
            yield _Claim(name, _POD, _listens(service)), located.pods
            yield _Claim(name, _SERVICE, frozenset(port.number for port in service.ports)), located.addresses
    calling = {call.source for call in program.calls}
    for name, external in program.externals.items():
        texts = (*external.cidrs, *literal(external.hosts), *addresses.service_addresses(name))
        ports = frozenset(port.number for port in external.ports)
        yield _Claim(name, _OUTSIDE, None if name in calling or not ports else ports), _single(texts)


def _listens(service: Service) -> frozenset[int] | None:
    return frozenset(port.target for port in service.ports) if service.host_network else None


def _single(texts: Iterable[str]) -> Iterator[str]:
    """The single addresses among the networks, each once. Another party may be inside a larger network."""
    networks = (network(text) for text in texts)
    yield from dict.fromkeys(str(parsed.network_address) for parsed in networks if parsed.num_addresses == 1)


def _clash(one: _Claim, other: _Claim) -> bool:
    if one.name == other.name or one.what == other.what == _OUTSIDE:
        return False
    return one.ports is None or other.ports is None or not one.ports.isdisjoint(other.ports)


def _report(findings: Diagnostics, text: str, one: _Claim, other: _Claim) -> None:
    both = None if one.ports is None or other.ports is None else min(one.ports & other.ports)
    at = f"`{text}`" if both is None else f"port {both} of `{text}`"
    if one.what == other.what == _POD and both is None:
        message = f"`{one.name}` and `{other.name}` both have the pod {at}"
        cause = "one pod hosts one ADM, and the policies of the other service would not be enforced"
        hint = "declare one service with the ports of both; or list other pods, if the file is wrong"
    elif one.what == other.what:
        message = f"`{one.name}` and `{other.name}` are both at {at}"
        cause = "the address and the port that a caller dials decide which service is meant"
        hint = "give each an address or a port of its own, or declare one service"
    else:
        message = f"{at} is {one.what} of `{one.name}` and {other.what} of `{other.name}`"
        if other.what == _OUTSIDE:
            message = f"{at} is {one.what} of `{one.name}`, and the outside party `{other.name}` is there, too"
        cause = "the policies of one would hold for connections of the other"
        hint = "an address belongs to one party: correct the endpoints file, or the `host` or `cidr` in the program"
    findings.error("ADM724", f"the endpoints file cannot be used: {message}", None, cause=cause, hint=hint)


def _loopback(findings: Diagnostics, addresses: Addresses) -> None:
    for name, located in addresses.services.items():
        for text in (*located.addresses, *located.pods):
            if text.startswith("127.") or text == "::1":
                findings.error(
                    "ADM724",
                    f"the endpoints file cannot be used: `{name}` is at `{text}`, which is loopback, and connections "
                    "are redirected",
                    None,
                    cause="loopback is each pod's own: every service has it, and nothing there is redirected",
                    hint="list the address by which other pods reach it; or use `--mode explicit`, on one machine",
                )
                break
