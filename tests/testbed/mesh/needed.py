"""Skips what needs a bed where none can be built, and says why: `pytestmark = NEEDS_MESH`."""

from __future__ import annotations

import pytest

from tests.system import HINT
from tests.testbed.mesh.needs import missing

NEEDS_MESH = pytest.mark.skipif(bool(missing()), reason=f"this machine lacks {', '.join(missing())}; {HINT}")
