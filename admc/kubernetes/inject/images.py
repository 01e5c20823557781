"""The images of injected containers, unless others are given."""

from __future__ import annotations

from typing import Final

from admc import __version__

IMAGE: Final = f"admc:{__version__}"
ENVOY_IMAGE: Final = "envoyproxy/envoy:v1.40-latest"
