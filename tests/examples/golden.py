"""Write the golden files anew: `python -m tests.examples.golden`. Read the difference before it is committed."""

from __future__ import annotations

from tests.examples.test_examples import EXAMPLES, GOLDEN, described

if __name__ == "__main__":
    for name in EXAMPLES:
        (GOLDEN / f"{name}.txt").write_text(described(name))
