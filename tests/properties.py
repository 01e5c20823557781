"""How many examples a property (Hypothesis) draws: some in `make test`, three times as many in `make test-long`."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import HealthCheck, settings

USUAL: Final = 100
SUITE: Final = 50
LONG: Final = 150
RANDOM: Final = 300


def register() -> None:
    """The profiles, of which `suite` is taken unless `--hypothesis-profile` says another.

    How long an example takes says what else the machine has to do, and is no property of what is tried. `suite` and
    `long` draw the same examples in every run, so that what fails has been changed; `random` draws others.
    """
    settings.register_profile(
        "random", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=RANDOM
    )
    settings.register_profile("long", settings.get_profile("random"), derandomize=True, max_examples=LONG)
    settings.register_profile("suite", settings.get_profile("long"), max_examples=SUITE)
    settings.load_profile("suite")


def examples(count: int, **others: Any) -> settings:
    """Settings of a property that gets `count` examples where others get 100.

    `make test` draws half as many, `make test-long` one and a half times as many.
    """
    profile = settings.default
    assert profile is not None
    return settings(max_examples=count * profile.max_examples // USUAL, **others)
