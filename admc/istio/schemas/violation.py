"""A value that a schema or a rule refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from admc.manifests.documents import Where


class Violation(NamedTuple):
    code: str
    where: Where
    """The place in the object."""
    message: str
    """What is wrong, without the value, which may be a secret."""
    cause: str | None = None
    hint: str | None = None


def shown(where: Where) -> str:
    """A place as a person writes it: `spec.http[0].route`."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
