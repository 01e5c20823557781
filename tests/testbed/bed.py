"""A whole application on loopback: its echo services, the Envoys of its plan, and somebody to send requests.

The emitter says where each caller dials and where each service listens (`emitters.envoy`, explicit mode); nothing here
knows how an enforcement is configured.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsl.program import Protocol, Side
from tests.testbed import echo
from tests.testbed.client import Reply, Request, Target, send
from tests.testbed.echo import EchoServices, Endpoint
from tests.testbed.envoys import Envoys
from tests.testbed.matching import holds, policies_on

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dsl.program import Call, Policy, Program
    from emitters.addresses import Addresses
    from solver.placement import Placement
    from tests.testbed.echo import Record

ROOM = 12
"""Requests that an ordinary probe may need."""
QUOTAS = ("rate_limit", "connection_rate_limit")
