"""Redirection inside a pod: the arguments of its rules container, and the rules that it loads.

    hops of the pod's ADM -> PodCaptures -> arguments -> rules

A pod's rules are loaded once, before its processes start, and addresses change. So connections are captured by port
alone, at any address but loopback, and the ADM's listener tells destinations apart. The rules depend on the arguments
and on nothing else: the pod's spec proves what its rules capture.

The ADM has no privilege, so it cannot mark packets as `rules` expects. The rules recognise its connections by its user
id. Those of its ingress listener to the pod's own process have a source address of their own, too (`emitters.ports`).
`docs/interception.md`, "In a pod", has the reasons. The rules container of every pod loads this module: it imports
nothing of the compiler.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from emitters.interception.tables import Captures, Family, Match, Recognition, any_address, owner, plain, restore_text
from emitters.ports import ADM_USER, HANDOVER_IPV4, HANDOVER_IPV6

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emitters.hops import Hop

HANDOVER: Final = {Family.IPV4: HANDOVER_IPV4, Family.IPV6: HANDOVER_IPV6}

_SERVICE: Final = "--service"
_INGRESS: Final = "--ingress"
_EGRESS: Final = "--egress"
_NAMES: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}/[A-Za-z0-9_.-]{1,200}")
_PORTS: Final = re.compile(r"[1-9][0-9]{0,4}(,[1-9][0-9]{0,4})*")
_MOST: Final = 65_535
_LONGEST: Final = 100_000
"""Most characters of one argument: more than a list of 15,000 ports has."""


class PodCaptures(NamedTuple):
    """The ports whose connections a pod's rules redirect to its ADM, at any address but loopback."""

    ingress: frozenset[int] = frozenset()
    """Target ports of the pod's own service."""
    egress: frozenset[int] = frozenset()
    """Ports that the pod dials: numbers of services, and target ports."""

    def covers(self, other: PodCaptures) -> bool:
        return other.ingress <= self.ingress and other.egress <= self.egress


class ArgumentsError(ValueError):
    """The arguments are not those of a rules container. The text of the error gives the reason."""


class PodRules(NamedTuple):
    """The content of the arguments of a rules container."""

    service: str
    """`APP/SERVICE`."""
    captures: PodCaptures


def pod_captures(hops: Iterable[Hop]) -> PodCaptures:
    """The captures that the ADM of these hops needs.

    Translation from a service's port to the process's port happens inside the pod on some networks and outside on
    others, so both are captured at egress. That includes the ports of a call of the service to itself.
    """
    from dsl.program import Side

    hops = tuple(hops)
    return PodCaptures(
        frozenset(hop.port.target for hop in hops if hop.side is Side.INGRESS),
        frozenset(port for hop in hops if hop.side is Side.EGRESS for port in (hop.port.number, hop.port.target)),
    )


def arguments(service: str, captures: PodCaptures) -> tuple[str, ...]:
    """The arguments of the rules container. `service` is `APP/SERVICE`. The same captures give the same arguments."""
    arguments_of_rules = [_SERVICE, service]
    for option, ports in ((_INGRESS, captures.ingress), (_EGRESS, captures.egress)):
        if ports:
            arguments_of_rules += [option, ",".join(map(str, sorted(ports)))]
    return tuple(arguments_of_rules)


def parse_arguments(args: Sequence[str]) -> PodRules:
    """The service and captures that arguments in the form of `arguments` name; their order does not matter. Raises
    `ArgumentsError`."""
    if any(len(text) > _LONGEST for text in args[:6]):
        raise ArgumentsError(f"an argument has more than {_LONGEST:,} characters")
    options: dict[str, str] = {}
    for option, value in zip(args[::2], args[1::2], strict=False):
        if option not in (_SERVICE, _INGRESS, _EGRESS):
            raise ArgumentsError(f"`{option}` is none of `{_SERVICE}`, `{_INGRESS}` and `{_EGRESS}`")
        if option in options:
            raise ArgumentsError(f"`{option}` is given twice")
        options[option] = value
    if len(args) % 2:
        raise ArgumentsError(f"`{args[-1]}` has no value")
    service = options.get(_SERVICE)
    if service is None:
        raise ArgumentsError(f"`{_SERVICE} APP/SERVICE` is missing")
    if not _NAMES.fullmatch(service):
        raise ArgumentsError(f"`{service}` is not `APP/SERVICE`")
    return PodRules(
        service, PodCaptures(_ports(_INGRESS, options.get(_INGRESS)), _ports(_EGRESS, options.get(_EGRESS)))
    )


def _ports(option: str, text: str | None) -> frozenset[int]:
    if text is None:
        return frozenset()
    ports = [int(number) for number in text.split(",")] if _PORTS.fullmatch(text) else []
    if not ports or max(ports) > _MOST:
        raise ArgumentsError(f"`{option} {text}`: what follows is not a list of ports such as `8082,9090`")
    return frozenset(ports)


def rules(captures: PodCaptures, service: str, family: Family) -> str:
    """The rules of one family for `iptables-restore --noflush`. `service` is `APP/SERVICE`."""
    app, _, name = service.partition("/")
    redirected = Captures(
        ingress=[(port, None) for port in sorted(captures.ingress)],
        egress=[Match(any_address(family, port)) for port in sorted(captures.egress)],
        by_port=bool(captures.egress),
        # Connections of the pod's processes to the pod itself reach the egress listener first.
        refused_to_self=sorted(captures.ingress & captures.egress),
    )
    return restore_text(plain(name), owner(app, name), redirected, _by_user(family), family)


_OPENED: Final = "0x10/0xf0"
_HANDED_OVER: Final = "0x11/0xff"
_OTHER: Final = "0x12/0xff"


def _by_user(family: Family) -> Recognition:
    """Recognises a connection by the user id of the process that opened it.

    Only a packet that a socket sends has a user id. Packets that the kernel sends for a socket that its process has
    closed (the rest of the data, FIN, the answer to a late packet) have none. So the first packet of a connection
    leaves a mark in the connection's entry: the ADM's packets set it, and all others clear it. They have to clear it,
    since Linux takes a new connection from the port of one that was reset a moment ago for that older connection, which
    may have the mark of the ADM.
    """
    user = f"-m owner --uid-owner {ADM_USER}"
    handover = f"-s {HANDOVER[family]} {user}"
    first = "-p tcp --syn"
    return Recognition(
        new_handover=handover,
        new=user,
        handover=f"-m connmark --mark {_HANDED_OVER}",
        # The answers of the pod's process on such a connection are not meant.
        other=f"-m connmark --mark {_OTHER} -m conntrack --ctdir ORIGINAL",
        any=f"-m connmark --mark {_OPENED}",
        noted=(
            f"{first} -j CONNMARK --set-xmark 0x0/0xff",
            f"{first} {user} -j CONNMARK --set-xmark {_OTHER}",
            f"{first} {handover} -j CONNMARK --set-xmark {_HANDED_OVER}",
        ),
    )
