"""How a measurement says what it does and finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from admc.cost.measurement.table import Row


class Channel(NamedTuple):
    progress: Callable[[str], None]
    row: Callable[[Row], None]
    note: Callable[[str], None]
    about: Callable[[str, object], None]
