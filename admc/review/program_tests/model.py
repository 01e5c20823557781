"""The tests of one program, resolved: every name in them is a name of the program.

text -> syntax tree -> [ProgramTest] -> result
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dsl.program import Port
from dsl.text import Span


@dataclass(frozen=True, slots=True)
class CallInTest:
    """One request (tcp: one connection), with the properties that the test gives. All other properties are open."""

    source: str
    destination: str
    port: Port
    declared: bool
    span: Span
    path: str | None = None
    method: str | None = None
    headers: Mapping[str, tuple[str, ...]] | None = None
    """Name in lower case -> the values of its lines; no value for a header that the request does not have."""
    passes: frozenset[str] = frozenset()
    """Policies that accept the request, since the test assumes what it cannot contain, such as a token."""


class Refused(NamedTuple):
    by: str | None = None


class Admitted(NamedTuple):
    """The request reaches a service."""


class Meets(NamedTuple):
    policies: tuple[str, ...]
    only: bool = False


Outcome = Refused | Admitted | Meets


@dataclass(frozen=True, slots=True)
class CallExpectation:
    call: CallInTest
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class AdmExpectation:
    """Each of the services hosts an ADM, or none of them does."""

    services: tuple[str, ...]
    present: bool


class NumberExpectation(NamedTuple):
    measure: str
    """`adms`, or `sidecars`: ADMs weighted by replicas."""
    operator: str
    """`==`, `<=` or `>=`."""
    number: int


Expectation = CallExpectation | AdmExpectation | NumberExpectation


class ProgramTest(NamedTuple):
    name: str
    span: Span
    """Of the name."""
    expectation: Expectation
