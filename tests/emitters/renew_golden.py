"""Writes the expected bootstraps anew, for a person to read the difference."""

from __future__ import annotations

from emitters.envoy import Mode
from tests.emitters.test_output import GOLDEN, emitted


def main() -> None:
    for path in GOLDEN.glob("*-*"):
        mode, _, name = path.name.partition("-")
        folder, _, file = name.partition("-")
        path.write_bytes(emitted(Mode(mode))[f"{folder}/{file}"])


if __name__ == "__main__":
    main()
