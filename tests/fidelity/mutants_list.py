"""The mutants: cases that the suite runs, each with one mistake in an ADM's configuration or in the placement.

None is equivalent: each changes what some client or server could observe, and so what the suite has to notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fidelity.mutants_arguments import arguments
from tests.fidelity.mutants_failures import failures
from tests.fidelity.mutants_matching import matches, ports, transparency
from tests.fidelity.mutants_placing import dropped, orders, places

if TYPE_CHECKING:
    from tests.fidelity.mutant import Mutant


def mutants() -> list[Mutant]:
    """All of them, in the order of the table."""
    return [
        *dropped(),
        *places(),
        *orders(),
        *ports(),
        *matches(),
        *arguments(),
        *transparency(),
        *failures(),
    ]
