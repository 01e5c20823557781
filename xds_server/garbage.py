"""Python's search for garbage in cycles looks at every object there is: with thousands of streams that takes a while.

A push to 2,000 streams makes tens of thousands of objects that live for a moment, and by default sets off several such
searches: a third of its CPU. What streams leave behind is mostly no cycle, so it need not be looked for so often.
"""

from __future__ import annotations

import gc
from typing import Final

OBJECTS: Final = 50_000
"""So many more objects than before set off a search among the youngest; Python's own number is 700."""


def search_less_often() -> None:
    """For programs that serve many streams: to be called once, by the program and not by a library."""
    gc.set_threshold(OBJECTS, 10, 10)
