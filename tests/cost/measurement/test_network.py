"""A machine without a network for the measurement says why, so that the load dials the sidecars instead."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from admc.cost.measurement import network
from admc.cost.measurement.network import NetworkError, isolate


def _refused(*_: object) -> int:
    raise OSError(errno.EPERM, "unshare: Operation not permitted")


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Tools that do nothing, in a process that stays where it is."""
    monkeypatch.setattr(network, "_PATH", str(tmp_path))
    monkeypatch.setattr(network, "leave", lambda: None)
    for name in ("ip", "iptables-restore"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    return tmp_path


@pytest.mark.parametrize(
    ("call", "said"), [("leave", "it needs root"), ("new_network", "second network"), ("inside", "second network")]
)
def test_a_system_call_that_is_refused_is_why_there_is_no_network(
    monkeypatch: pytest.MonkeyPatch, tools: Path, call: str, said: str
) -> None:
    monkeypatch.setattr(network, "new_network", lambda: os.open(tools, os.O_RDONLY))
    monkeypatch.setattr(network, call, _refused)
    with pytest.raises(NetworkError, match=said) as caught:
        isolate()
    assert "Operation not permitted" in str(caught.value)


def test_a_tool_that_cannot_be_started_is_why_there_is_no_network(tools: Path) -> None:
    (tools / "ip").write_text("#!/nowhere/sh\n")
    with pytest.raises(NetworkError, match="`ip` cannot be started"):
        isolate()
