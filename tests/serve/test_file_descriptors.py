"""The limit on open files bounds connections: each case in a process of its own, whose limits it may change."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import resource, sys
from admc.serve.file_descriptors import connections
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(connections(int(sys.argv[3])), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "found"),
    [
        (1024, 4096, 100, (100, 1024)),  # it fits
        (1024, 4096, 2000, (2000, 2256)),  # the soft limit is raised, and no further than needed
        (1024, 4096, 22_000, (3840, 4096)),  # as many as the hard limit leaves
        (100, 100, 22_000, (1, 100)),
    ],
)
def test_connections_are_what_the_limit_leaves(soft: int, hard: int, wanted: int, found: tuple[int, int]) -> None:
    command = [sys.executable, "-c", ASK, str(soft), str(hard), str(wanted)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert tuple(map(int, answer.stdout.split())) == found
