"""What an observer outside sees of a namespace: processes, rules, counters.

A test of "nothing stands in the way here" must not rest on the plan that is being tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    pid: int
    command: tuple[str, ...]

    @property
    def is_proxy(self) -> bool:
        return bool(self.command) and Path(self.command[0]).name == "envoy"


class Rule(NamedTuple):
    """One packet filter rule with its counters. In `nat`, packets are connections: only the first one passes there."""

    table: str
    chain: str
    packets: int
    bytes: int
    text: str

    @property
    def redirects(self) -> bool:
        return " -j REDIRECT" in self.text


def processes() -> dict[int, tuple[Process, ...]]:
    """All processes that may be seen, by the inode of their network namespace: from the host's list, not from ours."""
    found: dict[int, list[Process]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            inode = (folder / "ns" / "net").stat().st_ino
            command = tuple((folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1])
        except OSError:  # it has ended meanwhile, or is not ours to see
            continue
        found.setdefault(inode, []).append(Process(int(folder.name), command))
    return {inode: tuple(sorted(each)) for inode, each in found.items()}


_RULE = re.compile(r"\[(?P<packets>\d+):(?P<bytes>\d+)\] (?P<text>-A (?P<chain>\S+).*)")


def parse(saved: str) -> tuple[Rule, ...]:
    """The rules in the output of `iptables-save -c`."""
    table, found = "", []
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif match := _RULE.match(line):
            found.append(Rule(table, match["chain"], int(match["packets"]), int(match["bytes"]), match["text"]))
    return tuple(found)


def redirected(rules: Iterable[Rule]) -> int:
    """Connections that were redirected, to whatever."""
    return sum(rule.packets for rule in rules if rule.redirects)
