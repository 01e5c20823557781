"""What a process that serves thousands of streams asks of Python and of the C library.

Python's search for garbage in cycles looks at every object there is. A push to 2,000 streams makes tens of thousands of
objects that live for a moment, and by default sets off several such searches: a third of its CPU. What streams leave
behind is mostly no cycle, so it need not be looked for so often.

glibc gives each of gRPC's threads an arena of its own. What one thread takes another gives back, so that arenas fill
with holes as streams come and go: 100 to 170 bytes for each that came on a connection of its own, for ever. In one
arena memory stays where it is.
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

OBJECTS: Final = 50_000
"""So many more objects than before set off a search among the youngest; Python's own number is 700."""
M_ARENA_MAX: Final = -8
"""The number of this option in glibc's `malloc.h`."""


def suit_many_streams() -> None:
    """To be called once, by the program and not by a library, before it has threads."""
    gc.set_threshold(OBJECTS, 10, 10)
    # Other C libraries (musl, macOS) have no such arenas, and no such function.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_ARENA_MAX, 1)
