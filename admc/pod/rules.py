"""python -m admc.pod rules ARGUMENTS: loads a pod's redirection, in its own network namespace.

    arguments -> rules of both families -> iptables-restore, ip6tables-restore -> a check that they are loaded

In a pod with a global IPv6 address it also adds an address to the loopback interface. It needs NET_ADMIN and root. It
may run again at any time: rules of the same service are replaced in one step for each table, and a jump is added only
if it is missing. Rules of another service are never replaced. It exits with 0 once the rules of all families that the
pod has are loaded, and with 1 if one family fails; those of the other may be loaded then.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from emitters.interception.pod import HANDOVER, ArgumentsError, PodRules, parse_arguments, rules
from emitters.interception.tables import CHAINS, HOOKS, OWNED, Family, Hook, owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOOLS: Final = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
FLAVOURS: Final = ("", "-nft", "-legacy")
"""Suffixes of a tool's name: first none, which is the image's choice."""
ADDRESSES: Final = Path("/proc/net/if_inet6")
SECONDS: Final = 60.0
"""The time limit of one command, with its wait for another command that holds the lock of iptables."""

_PATH: Final = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
_SIOCSIFADDR: Final = 0x8916
_LINES_SHOWN: Final = 5


class RulesError(Exception):
    """The rules of a family are not loaded. `code` is a code for `admc explain`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Tool(NamedTuple):
    """iptables of one family, in a flavour that works here."""

    family: Family
    name: str

    def saved(self, table: str) -> list[str]:
        """Return the rules of a table. Raises `RulesError`."""
        return _run([f"{self.name}-save", "-t", table]).splitlines()

    def restore(self, text: str) -> None:
        """Raises `RulesError`."""
        _run([f"{self.name}-restore", "-w", "--noflush"], text)


def main(arguments: Sequence[str]) -> int:
    """Load the rules, and return the exit code."""
    try:
        asked = parse_arguments(arguments)
    except ArgumentsError as error:
        return _failed("ADM960", f"{error}")
    try:
        loaded = load(asked)
    except RulesError as error:
        return _failed(error.code, f"{error}")
    print(f"the rules of `{asked.service}` are loaded for {' and '.join(_TITLE[family] for family in loaded)}")
    return 0


_TITLE: Final = {Family.IPV4: "IPv4", Family.IPV6: "IPv6"}


def load(asked: PodRules) -> tuple[Family, ...]:
    """Load the rules of all families that the pod has, and return these families. Raises `RulesError`: before anything
    is changed, if rules of another service are loaded."""
    tools = [_tool(family) for family in _families()]
    for tool in tools:  # before anything is changed
        _check_owner(tool, asked)
    if any(tool.family is Family.IPV6 for tool in tools) and _has_ipv6_address():
        _add_handover()
    for tool in tools:
        text = rules(asked.captures, asked.service, tool.family)
        tool.restore(_without(text, _hooked(tool)))
        _verify(tool, text)
    return tuple(tool.family for tool in tools)


def _failed(code: str, message: str) -> int:
    print(f"error[{code}]: {message}", file=sys.stderr)
    return 1


# ---- the pod ----


def _inet6() -> list[list[str]]:
    """Return the fields of each IPv6 address: address, interface's number, prefix, scope, flags, interface's name."""
    try:
        return [line.split() for line in ADDRESSES.read_text().splitlines()]
    except FileNotFoundError:  # a kernel without IPv6
        return []


def _families() -> tuple[Family, ...]:
    # Without an IPv6 address, not even one of loopback, IPv6 is switched off: no traffic could be missed.
    return tuple(Family) if _inet6() else (Family.IPV4,)


def _has_ipv6_address() -> bool:
    """Whether the pod has an IPv6 address that others can use: neither of loopback nor of one link."""
    return any(words[3] == "00" for words in _inet6())


def _add_handover() -> None:
    """Give the loopback interface the address from which the ingress listener connects to the pod's own process.

    It is not called in a pod without an IPv6 address: programs would take this address for the pod's, and look up IPv6
    addresses of others.
    """
    address = socket.inet_pton(socket.AF_INET6, HANDOVER[Family.IPV6])
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sIi", address, 128, socket.if_nametoindex("lo"))
        try:
            fcntl.ioctl(any_socket, _SIOCSIFADDR, request)
        except FileExistsError:
            return
        except OSError as error:
            raise RulesError(
                "ADM962", f"the loopback interface does not take the address {HANDOVER[Family.IPV6]}: {error.strerror}"
            ) from error


# ---- iptables ----


def _tool(family: Family) -> Tool:
    """Return the first flavour that can read the tables. Raises `RulesError` if there is none."""
    reasons = []
    for flavour in FLAVOURS:
        tool = Tool(family, TOOLS[family] + flavour)
        if any(shutil.which(f"{tool.name}-{action}", path=_PATH) is None for action in ("save", "restore")):
            continue
        try:
            for table in CHAINS:
                tool.saved(table)
        except RulesError as error:
            reasons.append(f"{error}")
            continue
        return tool
    why = "; ".join(reasons) or f"the image has no `{TOOLS[family]}-restore`"
    raise RulesError("ADM961", f"rules for {_TITLE[family]} cannot be loaded here: {why}")


def _run(command: list[str], text: str = "") -> str:
    try:
        done = subprocess.run(  # noqa: S603 (names of tools, and what `Tool` adds)
            command,
            check=False,
            input=text,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": _PATH, "LC_ALL": "C"},
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise RulesError("ADM962", f"`{' '.join(command)}` did not end within {SECONDS:.0f} s") from error
    if done.returncode:
        output = " / ".join(done.stderr.strip().splitlines()[:_LINES_SHOWN]) or "it says nothing"
        raise RulesError("ADM962", f"`{' '.join(command)}` failed with exit code {done.returncode}: {output}")
    return done.stdout


def _check_owner(tool: Tool, asked: PodRules) -> None:
    """Refuse to replace the rules of another service: its ADM would see no connection any more."""
    app, _, service = asked.service.partition("/")
    own = [line for line in tool.saved("nat") if line.startswith(f"-A {OWNED} ")]
    if not own:
        return
    named = re.fullmatch(rf'-A {OWNED} -m comment --comment "?([^ "]*)"?', own[0])
    if named is None or named[1] != owner(app, service):
        whose = "a service without a name" if named is None else f"`{named[1]}`"
        raise RulesError(
            "ADM963",
            f"the {_TITLE[tool.family]} rules of {whose} are loaded in this pod, and these are those of "
            f"`{asked.service}`: nothing is changed",
        )


def _hooked(tool: Tool) -> frozenset[Hook]:
    """Return the jumps that are loaded."""
    return frozenset(hook for hook in HOOKS if f"-A {hook.builtin} -p tcp -j {hook.chain}" in tool.saved(hook.table))


def _without(text: str, hooked: frozenset[Hook]) -> str:
    """Return the rules without the jumps that are loaded."""
    present = {f"-I {hook.builtin} 1 -p tcp -j {hook.chain}" for hook in hooked}
    return "\n".join([*(line for line in text.splitlines() if line not in present), ""])


def _verify(tool: Tool, text: str) -> None:
    """Check that the kernel has as many rules in each chain as the text, and all jumps. Raises `RulesError`."""
    asked = dict(_counts(text.splitlines()))
    counts = {count for table in CHAINS for count in _counts(tool.saved(table))}
    missing = sorted(chain for chain, count in asked.items() if (chain, count) not in counts)
    missing += sorted(f"{hook.builtin} -> {hook.chain}" for hook in frozenset(HOOKS) - _hooked(tool))
    if missing:
        raise RulesError(
            "ADM962", f"`{tool.name}-restore` reported no error, but {', '.join(missing)} is not as it was loaded"
        )


def _counts(lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each of admc's chains that the lines declare, with the number of its rules."""
    for chains in CHAINS.values():
        for chain in chains:
            if f":{chain} - [0:0]" in lines:
                yield chain, sum(line.startswith(f"-A {chain} ") for line in lines)
