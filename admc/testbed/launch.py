"""Start a program that cannot outlive whoever started it.

    python -I launch.py PARENT PROGRAM [ARGUMENT...]

A test run that is killed outright has no chance to end its Envoys, and an Envoy that is left behind holds the ports of
the next run. Linux ends this process with its parent (`PR_SET_PDEATHSIG`, which survives the exec below); elsewhere the
parent's own clean-up has to do.
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
        if os.getppid() != parent:  # it was gone before we asked
            sys.exit(1)
    os.execv(program, sys.argv[2:])  # noqa: S606


if __name__ == "__main__":
    main()
