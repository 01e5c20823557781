"""`admc inject NAME` asks the server that a kubeconfig names: an answer of any size and form ends with a sentence.

By a server by hand: a real API server sends no such object.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from aiohttp import web

from tests.cli.command import ROOT
from tests.cluster.api.made_server import kubeconfig, served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MB: Final = 1_000_000
MANIFEST: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: main, image: m}]}
"""
_CHILD: Final = """
import re, sys
from admc.__main__ import main
code = main(sys.argv[1:])
# Not `ru_maxrss`, which counts what the parent had.
print("MB", int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024)
sys.exit(code)
"""
SPEC: Final = b'{"spec":{"formatVersion":1,"app":"shop","server":"a:1","index":{},"services":'


def listed(item: bytes, before: bytes = SPEC, after: bytes = b"}}") -> Callable[[int], bytes]:
    return lambda size: before + b"[" + item + (b"," + item) * (size // (len(item) + 1)) + b"]" + after


def named(value: bytes, before: bytes = SPEC) -> Callable[[int], bytes]:
    """An object with many keys."""
    return lambda size: before + b"{" + b",".join(b'"k%07d":%s' % (n, value) for n in range(size // 14)) + b"}}}"


NONSENSE: Final[dict[str, Callable[[int], bytes]]] = {
    "no JSON": lambda size: b"x" * size,
    "blanks": lambda size: b" " * size,
    "lists": listed(b"[]"),
    "objects": listed(b"{}"),
    "numbers": listed(b"1"),
    "another spec": listed(b"[]", b'{"spec":', b"}"),
    "services of no form": named(b"1"),
    "services without fields": named(b"{}"),
    "a long text": lambda size: SPEC + b'"' + b"\\u001b" * (size // 6) + b'"}}',
}


async def answered(content: bytes, folder: Path) -> tuple[int, int, str]:
    """The exit code, the most memory in MB, and what was said."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=content, content_type="application/json")

    manifest = folder / "app.yaml"
    manifest.write_text(MANIFEST, encoding="utf-8")
    async with served(answer) as address:
        config = kubeconfig(folder / "config", address)
        arguments = ["inject", "main", "-f", str(manifest), "--kubeconfig", str(config)]
        done = await asyncio.to_thread(_run, arguments)
    measured = re.search(r"^MB (\d+)$", done.stdout, re.MULTILINE)
    assert measured, done.stderr[-2000:]
    return done.returncode, int(measured[1]), done.stderr


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command: list[Any] = [sys.executable, "-c", _CHILD, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment)


@pytest.mark.long
@pytest.mark.parametrize("size", [15, 64, 70])
@pytest.mark.parametrize("name", NONSENSE)
async def test_megabytes_of_nonsense_end_with_a_sentence(name: str, size: int, tmp_path: Path) -> None:
    code, memory, said = await answered(NONSENSE[name](size * MB), tmp_path)
    assert code == 1, said[-2000:]
    assert re.search(r"ADM935|ADM957", said), said[-2000:]
    assert "Traceback" not in said
    assert len(said) < 2_000
    assert "\x1b" not in said
    assert memory < 600, said
    print(memory, said[:300])


@pytest.mark.long
@pytest.mark.parametrize("depth", range(900, 1000, 7))
async def test_depth_ends_with_a_sentence(depth: int, tmp_path: Path) -> None:
    """Where reading ends and writing begins to fail depends on the depth of calls."""
    code, _, said = await answered(SPEC + b"[" * depth + b"]" * depth + b"}}", tmp_path)
    assert code == 1, said[-2000:]
    assert re.search(r"ADM935|ADM957", said), said[-2000:]
