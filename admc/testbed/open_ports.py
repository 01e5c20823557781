"""Replaces the ports of a program on which a trial cannot listen: ports that only a privileged process may use, and
ports on which another process listens at every address.

    program -> program with other numbers, {number: number tried instead}

Nothing but the numbers changes: names, calls, policies and their order stay.
"""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dsl.program import callee

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dsl.program import Policy, Port, Program, Value

_SETTING = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_USUAL = 1024
_MOVED_BY = 20_000
_LARGEST = 65_535
_UNUSED = "127.255.255.253"
"""No party and no proxy has this address: a process that listens on a port of it listens on all addresses."""


def first_open_port() -> int:
    """The lowest port that this process may listen on."""
    if os.geteuid() == 0:
        return 1
    try:
        return int(_SETTING.read_text())
    except (OSError, ValueError):
        return _USUAL


def is_taken(number: int) -> bool:
    """Whether another process listens on this port at every address."""
    return not can_listen(_UNUSED, number)


def can_listen(address: str, number: int) -> bool:
    """Whether the address is free now. It counts as free after any other error, which the server will then report."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((address, number))
            tried.listen(1)
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


def with_open_ports(
    program: Program, first: int, taken: Callable[[int], bool] = is_taken
) -> tuple[Program, Mapping[int, int]]:
    """Return the program with ports that are at least `first` and not taken, and the new number of each other port."""
    ports = {port for service in program.services.values() for port in service.ports}
    ports |= {port for external in program.externals.values() for port in external.ports}
    used = {number for port in ports for number in (port.number, port.target)}
    moved: dict[int, int] = {}
    for number in sorted(number for number in used if number < first or taken(number)):
        candidate = _moved(number)
        while candidate in used or candidate in moved.values() or taken(candidate):
            candidate = _moved(candidate, 1)
        moved[number] = candidate
    if not moved:
        return program, {}

    def port(old: Port) -> Port:
        return old._replace(number=moved.get(old.number, old.number), target=moved.get(old.target, old.target))

    def all_ports(old: Iterable[Port]) -> tuple[Port, ...]:
        return tuple(map(port, old))

    return replace(
        program,
        services={name: replace(service, ports=all_ports(service.ports)) for name, service in program.services.items()},
        externals={
            name: replace(external, ports=all_ports(external.ports)) for name, external in program.externals.items()
        },
        calls=tuple(call._replace(port=port(call.port)) for call in program.calls),
        policies=tuple(_policy(policy, moved) for policy in program.policies),
    ), moved


def _moved(number: int, by: int = _MOVED_BY) -> int:
    return number + by if number + by <= _LARGEST else _MOVED_BY


def _policy(policy: Policy, moved: Mapping[int, int]) -> Policy:
    def argument(name: str, value: Value) -> Value:
        kind_of = {parameter.name: parameter.type.name for parameter in policy.kind.parameters}
        if kind_of[name] != "service" or value is None:
            return value
        service, number = callee(value)
        return value if number is None or number not in moved else f"{service}:{moved[number]}"

    ports = policy.ports
    return replace(
        policy,
        ports=None if ports is None else frozenset(moved.get(number, number) for number in ports),
        arguments={name: argument(name, value) for name, value in policy.arguments.items()},
    )
