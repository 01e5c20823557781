"""Without any one part of the comparison, the run of random pairs finds a breach."""

from __future__ import annotations

import pytest

from tests.review.diff.protection.mutants import MUTANTS, Mutant


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_breach_is_found_without(mutant: Mutant) -> None:
    assert mutant.found().breaches
