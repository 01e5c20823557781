"""`make test` and `make test-long`: both parts of the suite, and then one line that says what was skipped.

    python -m tests.run -m "not long and not cluster"     further words are for pytest

Ends with the exit code of the first part that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.skipped import FILE, line, read

# What is timed against real proxies runs by itself.
PARTS: Final = (("--ignore", "tests/fidelity"), ("tests/fidelity",))


def main(options: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="admc-tests-") as folder:
        path = Path(folder) / "skipped"
        environment = {**os.environ, FILE: str(path)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # without a cache each worker rewrites all asserts for 16 s
        codes = [
            subprocess.run([sys.executable, "-m", "pytest", "-n", "2", *options, *part], env=environment).returncode
            for part in PARTS
        ]
        print(line(read(path)))
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
