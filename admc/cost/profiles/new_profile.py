"""A profile that was measured, or made from the file of another tool."""

from __future__ import annotations

from typing import NamedTuple

from admc.cost.profiles.profile import Profile


class NewProfile(NamedTuple):
    """`notes` list the figures that the new profile lacks, with the reasons."""

    profile: Profile
    notes: tuple[str, ...]
