"""A profile that was measured, or made from the file of another tool."""

from __future__ import annotations

from typing import NamedTuple

from admc.cost.profiles.profile import Profile


class NewProfile(NamedTuple):
    """`notes` explain which figures are missing, and which measurements were left out or merged."""

    profile: Profile
    notes: tuple[str, ...]
