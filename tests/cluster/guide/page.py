"""The page as a shell script, and the node that it runs on.

A reader has `admc` and `kubectl` on the path, a kubeconfig, and nodes that can pull the images.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from admc.cli.inject import ENVOY_IMAGE, IMAGE
from tests.cluster import tools
from tests.cluster.node import images

if TYPE_CHECKING:
    from tests.cluster.node.cluster import Node

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = ROOT / "docs" / "cluster" / "README.md"
BUSYBOX: Final = "busybox:1.36"
_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WHY: Final = (
    "kubectl -n admc-system logs deployment/admc-main --tail=40; kubectl get pods --all-namespaces; "
    "kubectl describe programs"
)
"""Shown where a command fails."""


def script() -> str:
    """All commands of the page, which ends with the first that fails."""
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return f"set -Eeuxo pipefail\ntrap '{_WHY}' ERR\n" + "\n".join(blocks)


def load(node: Node) -> None:
    """The images that the page names."""
    node.load([images.busybox(BUSYBOX), images.envoy(ENVOY_IMAGE), images.server(IMAGE)])


def environment(node: Node, folder: Path) -> dict[str, str]:
    """Of a reader's shell, in a folder of its own with the repository's `deploy`."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(tools.find(tools.KUBECTL))
    (programs / "admc").write_text(f'#!/bin/sh\nexec {sys.executable} -m admc "$@"\n')
    (programs / "admc").chmod(0o755)
    (folder / "deploy").symlink_to(ROOT / "deploy")
    own = {"KUBECONFIG": str(node.kubeconfig), "PYTHONPATH": str(ROOT), "HOME": str(folder)}
    return {**os.environ, **own, "PATH": f"{programs}:{os.environ['PATH']}"}


def run(node: Node, folder: Path, seconds: float = 900.0) -> tuple[int, str]:
    """The exit code, and what the commands printed."""
    output = folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            ["bash", "-c", script()],
            cwd=folder,
            env=environment(node, folder),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        finally:
            # What the page leaves running in the background, where a command fails.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return code, output.read_text(encoding="utf-8", errors="replace")
