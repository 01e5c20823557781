"""Start a program that ends with its parent process.

    python -I launch.py PARENT PROGRAM [ARGUMENT...]

A parent that gets SIGKILL cannot end its Envoys, and an Envoy that goes on running holds the ports of the next run.
Linux ends this process with its parent (`PR_SET_PDEATHSIG`, which survives the exec below). On other systems only the
parent itself ends its children.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before the call above
            sys.exit(1)
    os.execv(program, sys.argv[2:])  # noqa: S606


if __name__ == "__main__":
    main()
