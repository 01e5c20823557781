"""Envoys end with the process that started them, and say why where they cannot start."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from admc.testbed.envoys import Envoy, EnvoyError, Envoys, envoy_binary

pytestmark = pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform")

BLOCK = 100 + os.getpid() % 150
ADMIN = f"127.0.{BLOCK}.20"
STARTER = """
import sys, time
from pathlib import Path
from admc.testbed.envoys import Envoys, envoy_binary
with Envoys(Path(sys.argv[1]), envoy_binary()) as envoys:
    envoys.start({"a": Path(sys.argv[2])})
    print(envoys.running["a"].process.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def bootstrap(tmp_path: Path) -> Path:
    path = tmp_path / "bootstrap.yaml"
    path.write_text(f"admin: {{ address: {{ socket_address: {{ address: {ADMIN}, port_value: 15000 }} }} }}\n")
    return path


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def gone_soon(process: int) -> bool:
    deadline = time.monotonic() + 60
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(process)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_an_envoy_does_not_outlive_its_parent(number: signal.Signals, tmp_path: Path, bootstrap: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "logs"), str(bootstrap)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert starter.stdout is not None
    with starter.stdout as output:
        envoy = int(output.readline())
        assert alive(envoy)
        starter.send_signal(number)
        starter.wait(timeout=60)
    assert gone_soon(envoy)


def test_an_envoy_that_is_stopped_frees_its_port(tmp_path: Path, bootstrap: Path) -> None:
    command = envoy_binary()
    assert command is not None
    for _ in range(2):
        with Envoys(tmp_path / "logs", command) as envoys:
            envoys.start({"a": bootstrap})
            assert envoys.running["a"].ready
            assert envoys.running["a"].stats()["server.live"] == 1
        assert envoys.running == {}


def test_a_taken_port_is_named(tmp_path: Path, bootstrap: Path) -> None:
    command = envoy_binary()
    assert command is not None
    message = r"the Envoy of `a` .* end the process that holds the port"
    with (
        socket.create_server((ADMIN, 15000)),
        Envoys(tmp_path / "logs", command) as envoys,
        pytest.raises(EnvoyError, match=message),
    ):
        envoys.start({"a": bootstrap})


def test_another_envoy_at_the_same_address_is_not_taken_for_it(tmp_path: Path, bootstrap: Path) -> None:
    command = envoy_binary()
    assert command is not None
    with Envoys(tmp_path / "one", command) as one, Envoys(tmp_path / "two", command) as two:
        one.start({"a": bootstrap})
        with pytest.raises(EnvoyError, match="end the process that holds the port"):
            two.start({"a": bootstrap})
        assert one.running["a"].ready


def test_a_wrong_bootstrap_is_quoted(tmp_path: Path) -> None:
    command = envoy_binary()
    assert command is not None
    path = tmp_path / "bootstrap.yaml"
    path.write_text(
        f"admin: {{ address: {{ socket_address: {{ address: {ADMIN}, port_value: 15000 }} }} }}\nnonsense: 1\n"
    )
    with Envoys(tmp_path / "logs", command) as envoys, pytest.raises(EnvoyError, match="nonsense"):
        envoys.start({"a": path})


def test_a_bootstrap_without_an_admin_address_is_refused(tmp_path: Path) -> None:
    command = envoy_binary()
    assert command is not None
    path = tmp_path / "bootstrap.yaml"
    path.write_text("node: { id: a, cluster: a }\n")
    with Envoys(tmp_path / "logs", command) as envoys, pytest.raises(EnvoyError, match="has no admin address"):
        envoys.start({"a": path})


@pytest.mark.parametrize("last_accepted", [False, True])
def test_an_envoy_whose_sockets_are_closed_is_waited_for(last_accepted: bool, tmp_path: Path) -> None:
    """The system closes the sockets of a killed process before it reports the end, those of connections before or
    after the listening one."""
    ending = "import sys; sys.stdin.read(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    process = subprocess.Popen([sys.executable, "-c", ending], stdin=subprocess.PIPE)
    assert process.stdin is not None
    log = tmp_path / "log"
    log.write_text("last words\n")
    envoys = Envoys(tmp_path, "envoy")
    envoys.running["a"] = Envoy("a", process, (ADMIN, 15000), log, log)
    with socket.create_server((ADMIN, 15000)) as listener:
        envoys.check(closely=True)
        envoys.check()
        threading.Timer(0.2, process.stdin.close).start()
        if last_accepted:
            threading.Thread(target=lambda: _close_all(listener), daemon=True).start()
        else:
            listener.close()
        with pytest.raises(EnvoyError, match=r"the Envoy of `a` ended by itself \(signal SIGKILL\): last words"):
            envoys.check(closely=True)


def _close_all(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()
