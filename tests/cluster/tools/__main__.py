"""`make tools`: build and unpack all programs of the cluster into the cache; what is there already is left alone.

    python -m tests.cluster.tools                        everything
    python -m tests.cluster.tools etcd kube-apiserver    these programs alone
    python -m tests.cluster.tools --seconds 900 ...      and take no longer than that

Ends with 1 where something could not be built or unpacked, and says what.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from tests.cluster import tools
from tests.cluster.tools import debian

SECONDS = 3600.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.tools")
    names = [program.name for program in tools.PROGRAMS]
    parser.add_argument("program", nargs="*", choices=[[], *names], help="all, and Debian's packages, without one")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the builds may take together")
    given = parser.parse_args(arguments)
    os.nice(5)
    until = time.monotonic() + given.seconds
    wanted = [program for program in tools.PROGRAMS if not given.program or program.name in given.program]
    done = [_built(program, until) for program in wanted]
    if not given.program:
        done.append(_unpacked())
    return 0 if all(done) else 1


def _built(program: tools.Program, until: float) -> bool:
    if not tools.missing([program]):
        print(f"{program.name}: in the cache", flush=True)
        return True
    print(f"{program.name}: building {program.package}", flush=True)
    began = time.monotonic()
    try:
        path = tools.build(program, max(0.0, until - began))
    except subprocess.TimeoutExpired:
        print(f"{program.name}: NOT BUILT, out of time; the next try goes on where this one stopped", flush=True)
        return False
    except (tools.MissingError, tools.BuildError) as error:
        print(f"{program.name}: NOT BUILT: {error}", flush=True)
        return False
    size = path.stat().st_size / 1e6
    print(f"{program.name}: built in {time.monotonic() - began:.0f} s, {size:.0f} MB", flush=True)
    return True


def _unpacked() -> bool:
    packages = ", ".join(debian.PACKAGES)
    if (debian.place() / "versions").is_file():
        print(f"{packages}: in the cache")
        return True
    began = time.monotonic()
    print(f"{packages}: downloading and unpacking, installing nothing", flush=True)
    try:
        path = debian.unpack()
    except (tools.MissingError, OSError, subprocess.TimeoutExpired) as error:
        print(f"{packages}: NOT UNPACKED: {error}")
        return False
    count = len((path / "versions").read_text(encoding="utf-8").splitlines())
    print(f"{packages}: {count} packages unpacked in {time.monotonic() - began:.0f} s")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
