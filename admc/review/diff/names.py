"""Policies of both plans by one name: that of HEAD, for a policy that was renamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from admc.review.diff.model import Rename


class Names:
    """Translates the names of BASE's policies to their names in HEAD."""

    def __init__(self, renames: Iterable[Rename]) -> None:
        self._head: Mapping[str, str] = {rename.base: rename.head for rename in renames}

    def in_head(self, base: str) -> str:
        return self._head.get(base, base)
