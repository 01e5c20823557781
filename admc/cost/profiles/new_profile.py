"""A profile that was measured, or made of another tool's file."""

from __future__ import annotations

from typing import NamedTuple

from admc.cost.profiles.profile import Profile


class NewProfile(NamedTuple):
    """`notes` say what is not in it."""

    profile: Profile
    notes: tuple[str, ...]
