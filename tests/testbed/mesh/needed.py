"""Skips what needs a bed where none can be built, and says why: `pytestmark = NEEDS_MESH`."""

from __future__ import annotations

import os

import pytest

from tests.system import HINT
from tests.testbed.mesh import Mode
from tests.testbed.mesh.needs import missing

NEEDS_MESH = pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {', '.join(missing())}; {HINT}")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason=f"only root can run Envoys as another user; {HINT}")

AS_COMPILED = (Mode.COMPILED, pytest.param(Mode.POD, marks=NEEDS_ROOT))
"""Both ways in which a placement runs, as parameters."""
AS_COMPILED_LONG = (Mode.COMPILED, pytest.param(Mode.POD, marks=(NEEDS_ROOT, pytest.mark.long)))
"""The same where the second takes too long for `make test`."""
