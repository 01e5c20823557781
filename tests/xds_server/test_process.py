"""What a process is asked to do for many streams, seen from within one."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

ARENAS = """
import ctypes, sys, threading
if sys.argv[1] == "suited":
    from xds_server.process import suit_many_streams
    suit_many_streams()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(4)
def take():
    together.wait()
    libc.malloc(1000)
    together.wait()
threads = [threading.Thread(target=take) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library has no arenas")
@pytest.mark.parametrize(("suited", "one"), [("suited", True), ("not", False)])
def test_threads_share_one_arena(suited: str, one: bool) -> None:
    said = subprocess.run(
        [sys.executable, "-c", ARENAS, suited], capture_output=True, text=True, check=True, timeout=60
    )
    assert (said.stdout.count("<heap nr=") == 1) is one
