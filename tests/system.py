"""What the tests need of the machine beside Python: `make system` installs it on Debian, as root.

    python3 -m tests.system     says what is missing and why it is needed, installs it, and says what is missing still

Ends with 1 while anything is missing, so also where this is not root, or not Debian. Tests that need what is missing
skip, and the run's last line says which (`tests/skipped.py`). It needs the standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/go/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""With the folders for administrators and Go's usual one, which need not be on a user's path."""
HINT = "`make system` installs what is missing (Debian, root)"

Version = tuple[int, int]


@dataclass(frozen=True)
class Need:
    """A package of Debian, and what it is needed for."""

    package: str
    programs: tuple[str, ...]
    purpose: str
    least: Version | None = None
    """Of the first program, where it matters."""


ORACLE = ROOT / "tests" / "istio" / "oracle"
"""Its module needs a later Go than all others. No test builds it: `make oracle` does."""


def least_go() -> Version:
    """The Go that all modules beside the tests can be built with."""
    modules = [path for folder in ("admc", "tests") for path in (ROOT / folder).rglob("go.mod")]
    modules = [path for path in modules if ORACLE not in path.parents]
    lines = (path.read_text(encoding="utf-8") for path in modules)
    found = [re.search(r"^go (\d+)\.(\d+)", text, re.MULTILINE) for text in lines]
    return max((int(match[1]), int(match[2])) for match in found if match)


FILTER = ("iptables-restore", "iptables-save", "ip6tables-restore", "ip6tables-save")
NEEDS = (
    Need("iptables", FILTER, "loads the emitted redirection rules into network namespaces"),
    Need("iproute2", ("ip",), "connects these namespaces"),
    Need("mount", ("mount",), "gives a server a disk that is full"),
    Need("git", ("git",), "lists the files that `make lint` and the wheel's test read"),
    Need("golang-go", ("go",), "builds a gRPC client, a reader of Kubernetes objects, a benchmark", least_go()),
)


def find(program: str) -> str | None:
    """Its path, or None."""
    return shutil.which(program, path=PATH)


def go() -> str | None:
    """The path of a Go that is new enough, or None."""
    found = find("go")
    return found if found and _go_version(found) >= least_go() else None


def missing() -> list[Need]:
    return [need for need in NEEDS if not (go() if need.package == "golang-go" else all(map(find, need.programs)))]


def installable(need: Need) -> str | None:
    """None where this Debian has it, new enough; else what it has."""
    shown = subprocess.run(["apt-cache", "policy", need.package], capture_output=True, text=True).stdout
    candidate = re.search(r"Candidate: (?:\d+:)?(\S+)", shown)
    if candidate is None or candidate[1] == "(none)":
        return "this Debian has no such package"
    if need.least is not None and _version(candidate[1]) < need.least:
        return f"this Debian has {candidate[1]}, and {_text(need.least)} or later is needed"
    return None


def main() -> int:
    wanted = missing()
    if not wanted:
        print("the tests find all that they need of this machine")
        return 0
    print("the tests need of this machine:")
    for need in wanted:
        print(f"  {need.package}: {need.purpose}")
    if find("apt-get") is None:
        return _refused("this is not Debian: install them by hand")
    if os.geteuid() != 0:
        return _refused("only root can install them")
    _apt("update")
    for need in wanted:
        if (why := installable(need)) is not None:
            print(f"{need.package}: {why}; install it by hand")
            continue
        print(f"installing {need.package}", flush=True)
        _apt("install", "--yes", "--no-install-recommends", need.package)
    left = [need.package for need in missing()]
    return _refused(f"still missing: {', '.join(left)}") if left else 0


def _refused(why: str) -> int:
    print(f"{why}. Tests that need them will skip, and say so at the end")
    return 1


def _apt(*arguments: str) -> None:
    """Its own messages say what failed; what is missing afterwards is found by looking."""
    subprocess.run(["apt-get", "-qq", *arguments], env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def _go_version(program: str) -> Version:
    return _version(subprocess.run([program, "env", "GOVERSION"], capture_output=True, text=True).stdout)


def _version(text: str) -> Version:
    match = re.search(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _text(version: Version) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main())
