"""What can go wrong with a bed of namespaces.

MeshError
├── MissingError   this machine lacks something: tests skip, a command that needs the bed ends with 1
├── LayoutError    the program cannot be laid out: too many pods, an outside network that is the bed's own
└── StartError     something should have started and did not: an Envoy that died, a port that is taken
"""

from __future__ import annotations

from collections.abc import Iterable

SKIPPED = "every test and figure that needs redirected connections between namespaces"


class MeshError(Exception):
    """The bed cannot do what was asked."""


class MissingError(MeshError):
    """`missing` are the things that this machine lacks, `skips` is what cannot be done without them."""

    def __init__(self, missing: Iterable[str], skips: str = SKIPPED) -> None:
        self.missing = tuple(missing)
        self.skips = skips
        super().__init__(f"the mesh needs {'; '.join(self.missing)}. Skipped without it: {skips}")


class LayoutError(MeshError):
    """The program does not fit into the bed's address plan."""


class StartError(MeshError):
    """A part of the bed did not start; the message has its last words."""
