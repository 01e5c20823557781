"""The part of requirements.lock that an image needs, with its hashes.

    python deploy/requirements.py server    what `admc[cluster]` needs
    python deploy/requirements.py build     what builds admc's wheel

The lock file also has what developers need. The Dockerfile runs this before anything is installed, so it needs the
standard library alone.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
EXTRA = "cluster"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PARENT = re.compile(r"^    #(?: via|  ) ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


class Pinned(NamedTuple):
    """One requirement of the lock file. A package has several where its version depends on the platform."""

    name: str
    text: str
    """The lines of the lock file: version, condition, hashes."""
    parents: frozenset[str]
    """The packages that need it."""


def pinned(lock: str) -> list[Pinned]:
    """The requirements of a lock file, in its order."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)[1:]
    return [Pinned(_name(block), block, frozenset(map(_plain, _PARENT.findall(block)))) for block in blocks]


def needed(lock: str, wanted: list[str]) -> list[Pinned]:
    """What these requirements need, and what those need in turn, in the order of the lock file."""
    entries = pinned(lock)
    names = {_name(requirement) for requirement in wanted}
    missing = names - {entry.name for entry in entries}
    if missing:
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}: run `make lock`")
    while more := {entry.name for entry in entries if entry.parents & names} - names:
        names |= more
    return [entry for entry in entries if entry.name in names]


def server_requirements() -> list[str]:
    """What pyproject.toml says that `admc[cluster]` needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"][EXTRA]]


def build_requirements() -> list[str]:
    return (ROOT / "requirements-build.in").read_text(encoding="utf-8").split()


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    if match is None:
        raise SystemExit(f"`{requirement.splitlines()[0]}` does not begin with the name of a package")
    return _plain(match[0])


def _plain(name: str) -> str:
    """The form in which names of packages are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: list[str]) -> int:
    lists = {"server": server_requirements, "build": build_requirements}
    if len(arguments) != 1 or arguments[0] not in lists:
        print("usage: python deploy/requirements.py server|build", file=sys.stderr)
        return 1
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    print("".join(entry.text for entry in needed(lock, lists[arguments[0]]())), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
