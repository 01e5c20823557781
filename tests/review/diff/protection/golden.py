"""Writes the golden file of all examples: `python -m tests.review.diff.protection.golden`."""

from __future__ import annotations

from tests.review.diff.protection.examples import GOLDEN, listing
from tests.review.diff.protection.examples_of_parties import ALL

if __name__ == "__main__":
    GOLDEN.write_text("\n".join(listing(example) for example in ALL), encoding="utf-8")
