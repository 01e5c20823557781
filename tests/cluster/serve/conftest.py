"""What the tests of `admc serve --cluster` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from emitters.interception.pod import PodCaptures
from tests.cluster.serve.installation import Installation, installation

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.api_server import ApiServer


@pytest.fixture
def shop(cluster_api: ApiServer, tmp_path: Path) -> Installation:
    """Two services with a pod each; that of `web` has the redirection that an ADM at its egress needs."""
    found = installation(cluster_api, tmp_path)
    found.service("web", 8080)
    found.service("cart", 8081)
    found.pod("web-1", "web", "10.77.0.1", PodCaptures(frozenset(), frozenset({8081})))
    found.pod("cart-1", "cart", "10.77.0.2")
    return found
