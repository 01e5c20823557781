"""Where the sources of the Go programs are: the load, and the services that answer it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

APP: Final = Path(__file__).with_name("app")
"""A Go module of the standard library alone. `app/main.go` lists its commands."""
