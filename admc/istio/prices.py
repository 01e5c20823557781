"""What sidecars take at rest, by a profile: the least that goes with them. Their traffic is not known."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.decimals import significant
from admc.base.terminal import visible

if TYPE_CHECKING:
    from admc.cost.profiles.profile import Figure
    from admc.cost.profiles.source import NamedProfile

_BYTES_OF_MB: Final = 1_000_000


class Price(NamedTuple):
    """What a number of sidecars takes at rest. A figure that the profile lacks is None, and never made up."""

    sidecars: int
    profile: str
    sha256: str
    machine: str
    cpu: Decimal | None
    """In cores."""
    memory: Decimal | None
    """In bytes."""


def price(sidecars: int, named: NamedProfile) -> Price:
    cost, platform = named.profile.sidecar, named.profile.platform
    return Price(
        sidecars,
        named.named,
        named.sha256,
        platform.machine,
        _times(cost.idle_cpu, sidecars),
        _times(cost.memory, sidecars),
    )


def _times(figure: Figure | None, number: int) -> Decimal | None:
    return None if figure is None else figure.value * number


def in_words(made: Price) -> str:
    """A line about the sidecars that could go."""
    figures = [
        "" if made.cpu is None else f"{significant(Fraction(made.cpu), 3)} cores",
        "" if made.memory is None else f"{significant(Fraction(made.memory / _BYTES_OF_MB), 3)} MB",
    ]
    known = " and ".join(figure for figure in figures if figure)
    name = visible(made.profile)
    if not known:
        return f"the profile {name} has no figure of a sidecar at rest, so those that do not have no price"
    return (
        f"the {made.sidecars} that do not take at least {known} at rest, by the profile {name} "
        f"({visible(made.machine)}); what their traffic costs is not known"
    )
