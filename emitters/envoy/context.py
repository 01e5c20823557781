"""What every part of the Envoy emitter needs to know, and how it reports what Envoy cannot express."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from dsl.diagnostics import Diagnostics

if TYPE_CHECKING:
    from dsl.program import Policy, Program, Service
    from dsl.text import Span
    from emitters.addresses import Addresses


class Mode(StrEnum):
    REDIRECT = "redirect"
    """Connections are redirected to the ADM and keep their original destination (docs/interception.md)."""
    EXPLICIT = "explicit"
    """Every direction and port has a listener of its own, which callers dial: needs no privilege."""


@dataclass(frozen=True)
class Context:
    program: Program
    addresses: Addresses
    mode: Mode
    service: Service
    """Whose ADM is being configured."""
    findings: Diagnostics = field(default_factory=Diagnostics)

    @property
    def replicas(self) -> int:
        """How many ADMs share a limit that is stated for a service: the known replicas, or the declared ones."""
        return max(1, len(self.addresses.pod_addresses(self.service.name)) or self.service.replicas)

    def refuse(
        self, code: str, message: str, policy: Policy, *, cause: str, hint: str, span: Span | None = None
    ) -> None:
        self.findings.error(code, message, span or policy.span, cause=cause, hint=hint)
