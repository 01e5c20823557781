"""The context that all parts of the Envoy emitter share, and in which they report what Envoy cannot express."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity

if TYPE_CHECKING:
    from dsl.program import Policy, Program, Service
    from dsl.text import Span
    from emitters.addresses import Addresses
    from emitters.addresses.index import AddressIndex


class Mode(StrEnum):
    REDIRECT = "redirect"
    """Connections are redirected to the ADM and keep their original destination (docs/interception.md)."""
    EXPLICIT = "explicit"
    """Every direction and port has a listener of its own, which callers dial: needs no privilege."""
    POD = "pod"
    """As with `redirect`, in a pod whose ADM has no privilege (docs/interception.md, "In a pod")."""

    @property
    def redirected(self) -> bool:
        """Whether connections keep their original destination."""
        return self is not Mode.EXPLICIT


@dataclass(frozen=True)
class Context:
    program: Program
    addresses: Addresses
    index: AddressIndex
    mode: Mode
    service: Service
    """The service whose ADM is configured."""
    findings: Diagnostics = field(default_factory=Diagnostics)
    by_chain: bool = False
    """Route tables and filters have the names of their filter chains (`chain_names`)."""

    @property
    def replicas(self) -> int:
        """The number of ADMs that share a limit of the service.

        Declared replicas without a known address count, since they will come. Without redirection there is one process
        for each address, whatever the program declares.
        """
        known = len(self.addresses.replicas(self.service.name))
        if known and self.mode is Mode.EXPLICIT:
            return known
        return max(1, known, self.service.replicas)

    def refuse(
        self, code: str, message: str, policy: Policy, *, cause: str, hint: str, span: Span | None = None
    ) -> None:
        diagnostic = Diagnostic(code, Severity.ERROR, message, span or policy.span, cause, hint)
        # A policy may have the same error at each of its destinations.
        if diagnostic not in self.findings.items:
            self.findings.add(diagnostic)
