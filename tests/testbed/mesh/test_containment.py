"""Nothing is left behind, whichever process is killed; and what cannot start says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import dsl
from solver.place import place
from tests.testbed.mesh import Mesh, Mode, StartError
from tests.testbed.mesh import outside as host
from tests.testbed.mesh.errors import MissingError
from tests.testbed.mesh.needed import NEEDS_MESH
from tests.testbed.mesh.needs import ROOT, missing, require

TEXT = """\
app small
service a { http 80 }
service b { http 80  replicas 2 }
call a -> b
policy tag = set_request_header(name: "x-out", value: "yes") on a -> b
"""
VICTIM = f"""
import time, dsl
from solver.place import place
from tests.testbed.mesh import Mesh
program = dsl.load_text({TEXT!r})
mesh = Mesh(program, place(program))
mesh.__enter__()
mesh.request("a", "b")
print(mesh.agent_pid, mesh.folder, *mesh.inodes.values(), flush=True)
time.sleep(60)
"""


def _until(holds: Callable[[], bool]) -> bool:
    """Whether something holds in the end."""
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def _gone(inodes: set[int]) -> bool:
    """Whether no process is left in any of these namespaces, and so no namespace."""
    return _until(lambda: not inodes & set(host.processes()))


@pytest.mark.long
@NEEDS_MESH
@pytest.mark.parametrize("who", ["parent", "agent"])
def test_nothing_outlives_a_kill(who: str) -> None:
    victim = subprocess.Popen([sys.executable, "-c", VICTIM], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert victim.stdout is not None
        agent, folder, *rest = victim.stdout.readline().split()
        inodes = {int(each) for each in rest}
        running = host.processes()
        found = [process for inode in inodes for process in running.get(inode, ())]
        assert sum(process.is_proxy for process in found) >= 1
        assert len(inodes) == 4
        os.kill(victim.pid if who == "parent" else int(agent), signal.SIGKILL)
        assert _gone(inodes)
        if who == "parent":
            assert _until(lambda: not Path(folder).exists())
    finally:
        victim.kill()
        victim.wait()
        victim.stdout.close()  # type: ignore[union-attr]
    if who == "agent":  # the one who would have cleaned up was killed, and so was the one who asked for it
        for file in sorted(Path(folder).rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        Path(folder).rmdir()


@NEEDS_MESH
def test_a_bed_ends_when_its_context_does_and_touches_nothing_of_the_host() -> None:
    def state() -> tuple[list[str], str]:
        devices = [line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()]
        return devices, Path("/proc/sys/net/ipv4/ip_forward").read_text()

    program = dsl.load_text(TEXT)
    before = state()
    with Mesh(program, place(program)) as mesh:
        folder, inodes = mesh.folder, set(mesh.inodes.values())
        assert state() == before
        assert Path("/proc/self/ns/net").stat().st_ino not in inodes
    assert _gone(inodes)
    assert not folder.exists()


@NEEDS_MESH
def test_a_bed_outlives_the_thread_that_started_it() -> None:
    program = dsl.load_text(TEXT)
    mesh = Mesh(program, None, Mode.NONE)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(mesh.__enter__).result()
    with ExitStack() as stack:
        stack.push(mesh)
        time.sleep(0.1)  # a process that ends with that thread does so at once
        assert mesh.request("a", "b").ok


@pytest.mark.long
@NEEDS_MESH
def test_two_beds_do_not_meet() -> None:
    program = dsl.load_text(TEXT)
    with Mesh(program, place(program)) as one, Mesh(program, None, Mode.NONE) as other:
        assert set(one.inodes.values()).isdisjoint(other.inodes.values())
        assert one.request("a", "b").ok
        assert other.request("a", "b").ok
        assert len(one.arrivals()) == len(other.arrivals()) == 1


@NEEDS_MESH
def test_an_envoy_that_dies_is_reported_and_the_rest_is_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = dsl.load_text(TEXT)
    mesh = Mesh(program, place(program), folder=tmp_path)
    real = mesh._files
    monkeypatch.setattr(
        mesh,
        "_files",
        lambda: {
            **real(),
            "a/bootstrap.yaml": b"admin: {address: {socket_address: "
            b"{address: 127.0.0.1, port_value: 15000}}}\nnonsense: 1\n",
        },
    )
    with pytest.raises(StartError, match=r"Envoy of `a/0` ended at once: .*nonsense"), mesh:
        pass
    assert _gone(set(mesh.inodes.values()))
    assert (tmp_path / "a-0.envoy.log").exists()  # kept, since the folder was the caller's


@NEEDS_MESH
def test_an_adm_that_is_killed_takes_its_captured_calls_with_it_and_no_others() -> None:
    program = dsl.load_text(TEXT)
    with Mesh(program, place(program)) as mesh:
        assert mesh.request("a", "b").ok
        (place_,) = [name for name in mesh.proxies if name.startswith("a/")] or [min(mesh.proxies)]
        mesh.proxies[place_].kill()
        assert not mesh.proxies[place_].running
        assert mesh.request("a", "b").label == "connection refused"
        assert mesh.request("b", "a").ok
        mesh.proxies[place_].restart()
        assert mesh.request("a", "b").ok


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.testbed.mesh.needs.PATH", "/nowhere")
    missing.cache_clear()
    try:
        with pytest.raises(MissingError, match=r"`ip`; `iptables-restore`.* Skipped without it: ") as caught:
            require()
        assert "`ip6tables-save`" in caught.value.missing
    finally:
        missing.cache_clear()


def test_asked_for_by_name_it_fails_where_something_is_missing() -> None:
    lacking = "import tests.testbed.mesh.needs as n; n.PATH = '/nowhere'; "
    done = subprocess.run(
        [sys.executable, "-c", f"{lacking}from tests.testbed.mesh.__main__ import main; raise SystemExit(main([]))"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "`iptables-restore`" in done.stdout
    assert "Skipped without it" in done.stdout


@pytest.mark.long
@NEEDS_MESH
def test_asked_for_by_name_it_shows_every_call(tmp_path: Path) -> None:
    path = tmp_path / "small.adm"
    path.write_text(TEXT)
    done = subprocess.run(
        [sys.executable, "-m", "tests.testbed.mesh", str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a -> b:80" in done.stdout
    assert "4 of 4 answered as declared" in done.stdout
