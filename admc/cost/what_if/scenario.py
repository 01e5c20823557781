"""Changes a program: another profile, other figures of its profile, other rates.

    options of a command -> [Scenario]
    Program, Scenario -> [Program before the change, Program after it]

A changed profile becomes the profile of the changed program, so that every stage reads it in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from admc.base.exits import wrong_usage
from admc.cost.profiles.source import named_source, profile_of
from admc.cost.what_if.changed_profile import changed
from admc.cost.what_if.changes import CODE, Change, read_changes, read_traffic
from dsl import units
from dsl.program import Call, ProfileSource, Program
from dsl.requests import Request
from dsl.text import Span


class Scenario(NamedTuple):
    """A change. `profile` is the path of a profile or the name of a built-in one."""

    changes: tuple[Change, ...] = ()
    profile: str | None = None
    traffic: Decimal | None = None
    replan: bool = False


def read_scenario(what_if: Iterable[str], profile: str | None, traffic: str | None, *, replan: bool) -> Scenario:
    """Read the options of a command.

    Raises `CommandError` (exit 1) for a change that cannot be read, and for `--replan` without any other change.
    """
    scenario = Scenario(
        read_changes(tuple(what_if)), profile, None if traffic is None else read_traffic(traffic), replan
    )
    if replan and scenario == Scenario(replan=True):
        raise wrong_usage(
            CODE,
            "`--replan` solves again after a change, and there is none",
            hint="give one of `--what-if`, `--profile` and `--traffic`, too",
        )
    return scenario


def before(program: Program, scenario: Scenario) -> Program:
    """The program before the change. If it has no profile, that of the scenario is used. Raises `CommandError` (exit 1)
    for a profile that cannot be read."""
    if program.profile is not None or scenario.profile is None:
        return program
    return replace(program, profile=_source(program, scenario.profile))


def after(program: Program, scenario: Scenario, folder: str = "") -> Program:
    """The program after the change. Raises `CommandError` (exit 1) for a profile that cannot be read or changed."""
    source = program.profile if scenario.profile is None else _source(program, scenario.profile)
    other = replace(program, profile=source)
    if scenario.changes and source is not None:
        named = profile_of(other, folder)
        if named is not None:
            text = changed(named.profile, scenario.changes)
            other = replace(other, profile=ProfileSource(source.name, source.span, text))
    if scenario.traffic is not None:
        factor = Fraction(scenario.traffic)
        other = replace(
            other,
            calls=tuple(_call(call, factor) for call in program.calls),
            requests=tuple(_request(request, factor) for request in program.requests),
        )
    return other


def compares(program: Program, scenario: Scenario) -> bool:
    """Whether there are two estimates: `--profile` alone makes only one if the program itself has no profile."""
    if scenario.changes or scenario.traffic is not None or scenario.replan:
        return True
    return scenario.profile is not None and program.profile is not None


def _source(program: Program, named: str) -> ProfileSource:
    span = Span(program.source, 0, 0) if program.profile is None else program.profile.span
    return named_source(named, span)


def _call(call: Call, factor: Fraction) -> Call:
    """Multiply the rate of a call as the shortest decimal of its float: 6/m is 0.1, and not the binary fraction next
    to 0.1."""
    return call if call.rate is None else call._replace(rate=units.nearest_rate(Fraction(repr(call.rate)) * factor))


def _request(request: Request, factor: Fraction) -> Request:
    return request if request.rate is None else replace(request, rate=request.rate * factor)
