"""The error of emitters where the target cannot express a correct placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.diagnostics.diagnostic import Diagnostic


class EmitError(Exception):
    """Envoy, Kubernetes or the packet filter cannot express the placement; carries every finding of the run."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code}: {d.message}" for d in self.diagnostics[:3]))
