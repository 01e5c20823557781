"""Years of an installation in simulated time: whatever stops when, each certificate that a replica shows is trusted by
each proxy, also by one whose files are a day old."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.authority.authorities import Authorities, advanced, from_data, to_data
from admc.kubernetes.cluster.authority.certificates import life
from admc.kubernetes.cluster.authority.schedule import (
    AUTHORITY_SECONDS,
    CLOCK_ERROR,
    DAY,
    HOUR,
    LAST_SECONDS,
    SHOWN_SECONDS,
    Life,
    Step,
    Times,
    next_step,
)
from tests.properties import examples

NAME = "admc-main.admc-system.svc"
YEARS = 4
NAMESPACES = ("a", "b", "c")
BEGINS = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Shown(NamedTuple):
    at: float
    bundle: tuple[x509.Certificate, ...]


@dataclass
class Replica:
    clock_error: float
    """How far its clock is ahead."""
    known: Authorities | None = None


@dataclass
class World:
    chance: random.Random
    now: float = BEGINS
    secret: Authorities | None = None
    """What is stored, as it is read again."""
    replicas: list[Replica] = field(default_factory=list)
    active: int = 0
    config_maps: dict[str, list[Shown]] = field(default_factory=lambda: {name: [] for name in NAMESPACES})
    refuse_until: dict[str, float] = field(default_factory=dict)
    promotions: int = 0
    verified: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)

    def act(self) -> None:
        """The active replica looks, and may be stopped after any of its steps."""
        replica = self.replicas[self.active]
        steps_left = self.chance.choice((0, 1, 2, 99, 99, 99))
        taken: list[Step] = []
        while True:
            before = replica.known = self.secret
            now = self.now + replica.clock_error
            step = next_step(None if before is None else before.times([NAME]), now, is_shown=self._is_shown(before))
            if step is Step.NOTHING:
                break
            if steps_left == 0 and self.secret is not None:
                replica.known = None  # it is stopped
                return
            steps_left -= 1
            taken.append(step)
            assert len(taken) == len(set(taken)), taken
            replica.known = self.secret = from_data(to_data(advanced(before, step, "main", [NAME], now)))
            self.promotions += step is Step.PROMOTE
        self._write(replica.known)

    def _write(self, authorities: Authorities | None) -> None:
        assert authorities is not None
        for name, shown in self.config_maps.items():
            if self.now >= self.refuse_until.get(name, 0.0) and (not shown or shown[-1].bundle != authorities.trusted):
                shown.append(Shown(self.now, authorities.trusted))

    def _is_shown(self, authorities: Authorities | None) -> bool:
        return authorities is not None and all(
            shown and shown[-1].bundle == authorities.trusted for shown in self.config_maps.values()
        )

    def check(self) -> None:
        for replica in self.replicas:
            if replica.known is None:
                continue
            for shown in self.config_maps.values():
                last_day = [each for each, after in zip(shown, [*shown[1:], None], strict=True)
                            if after is None or after.at > self.now - DAY]  # fmt: skip
                for bundle in (each.bundle for each in last_day):
                    self._check_trusted(replica.known.serving.certificate, bundle)

    def _check_trusted(self, shown: x509.Certificate, bundle: tuple[x509.Certificate, ...]) -> None:
        """By proxies whose clocks differ by as much as is allowed."""
        (issuer,) = (each for each in bundle if each.subject == shown.issuer)
        for certificate in (shown, issuer):
            begins, ends = life(certificate)
            assert begins <= self.now - CLOCK_ERROR / 2
            assert self.now + CLOCK_ERROR / 2 <= ends
        assert len(bundle) <= 3
        key = shown.serial_number, tuple(each.serial_number for each in bundle)
        if key not in self.verified:
            policy = PolicyBuilder().store(Store(bundle)).time(datetime.fromtimestamp(self.now, UTC))
            policy.build_server_verifier(x509.DNSName(NAME)).verify(shown, [])
            self.verified.add(key)


@examples(12)
@given(seed=st.integers(0, 2**32))
def test_whatever_stops_each_shown_certificate_is_trusted(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    world = World(chance)
    # Two clocks differ by as much as is allowed, and proxies' clocks are between them.
    world.replicas = [Replica(chance.uniform(-0.5, 0.5) * CLOCK_ERROR) for _ in range(2)]
    while world.now < BEGINS + YEARS * 365 * DAY:
        world.act()
        for replica in world.replicas:
            # A replica that stands by may be days behind.
            if replica.known is not None and chance.random() < 0.8:
                replica.known = world.secret
        world.check()
        event = chance.random()
        if event < 0.05:
            world.active = 1 - world.active
        elif event < 0.06:  # no replica runs
            world.now += chance.uniform(0, 15) * DAY
            for replica in world.replicas:
                replica.known = None
        elif event < 0.08:
            world.refuse_until[chance.choice(NAMESPACES)] = world.now + chance.uniform(0, 20) * DAY
        world.now += chance.choice((chance.uniform(0, HOUR), chance.uniform(0, DAY), chance.uniform(0, 2 * DAY)))
    # One begins to sign after two thirds of a year, and a day or, after an outage, some weeks.
    assert world.promotions >= YEARS * 365 * DAY / (AUTHORITY_SECONDS * 2 / 3 + 60 * DAY) - 1


# ---- single steps ----

NOW = BEGINS
SIGNER = Life(NOW - 10 * DAY, NOW + 355 * DAY)
DUE = Life(NOW - 250 * DAY, NOW + 115 * DAY)
SERVING = Life(NOW - DAY, NOW + 29 * DAY)
NEXT = Life(NOW - 5 * DAY, NOW + 360 * DAY)
REST = Times(SIGNER, SERVING, True, None, None, None)


@pytest.mark.parametrize(
    ("times", "is_shown", "step"),
    [
        (None, False, Step.CREATE),
        (REST, True, Step.NOTHING),
        (REST._replace(has_names=False), True, Step.RENEW),
        (REST._replace(serving=Life(NOW - 20 * DAY, NOW + 10 * DAY)), True, Step.RENEW),
        (REST._replace(serving=Life(NOW - 40 * DAY, NOW - 10 * DAY)), True, Step.RENEW),
        (REST._replace(signer=DUE), True, Step.MAKE_NEXT),
        (REST._replace(signer=DUE, next=NEXT), False, Step.NOTHING),
        (REST._replace(signer=DUE, next=NEXT), True, Step.NOTE_SHOWN),
        (REST._replace(signer=DUE, next=NEXT, next_shown=NOW - SHOWN_SECONDS + 1), True, Step.NOTHING),
        (REST._replace(signer=DUE, next=NEXT, next_shown=NOW - SHOWN_SECONDS), True, Step.PROMOTE),
        # It was in every ConfigMap for long enough, and one of them was altered a moment ago.
        (REST._replace(signer=DUE, next=NEXT, next_shown=NOW - SHOWN_SECONDS), False, Step.PROMOTE),
        # A namespace refuses its ConfigMap until the authority ends.
        (REST._replace(signer=Life(NOW - 354 * DAY, NOW + LAST_SECONDS + 1), next=NEXT), False, Step.NOTHING),
        (REST._replace(signer=Life(NOW - 355 * DAY, NOW + LAST_SECONDS), next=NEXT), False, Step.PROMOTE),
        # No server has run for long.
        (REST._replace(signer=Life(NOW - 366 * DAY, NOW - DAY)), False, Step.CREATE),
        (REST._replace(signer=Life(NOW - 366 * DAY, NOW - DAY), next=NEXT), False, Step.PROMOTE),
        (REST._replace(signer=Life(NOW - 900 * DAY, NOW - DAY), next=Life(NOW - 500 * DAY, NOW)), False, Step.CREATE),
        (REST._replace(signer=Life(NOW - 350 * DAY, NOW + 5 * DAY)), False, Step.MAKE_NEXT),
        (REST._replace(former_until=NOW + 1), True, Step.NOTHING),
        (REST._replace(former_until=NOW), True, Step.DROP_FORMER),
    ],
)
def test_the_next_step(times: Times | None, is_shown: bool, step: Step) -> None:
    assert next_step(times, NOW, is_shown=is_shown) is step
