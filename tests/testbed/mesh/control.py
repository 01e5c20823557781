"""The two lines to the inside: to the agent, and to the process of each pod."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from admc.testbed.echo import Seen
from tests.testbed.mesh.errors import StartError
from tests.testbed.mesh.needs import ROOT

MESSAGE = 1 << 20
END_SECONDS = 5.0


class Agent:
    """The process that holds the namespaces. Safe to use from several threads."""

    def __init__(self, folder: Path, *, remove: bool) -> None:
        """`remove` the folder when this process is killed and cannot do so itself."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The kernel knows threads only: in any but the main thread the agent would end with the thread.
        parent = os.getpid() if threading.current_thread() is threading.main_thread() else 0
        command = [sys.executable, "-m", "tests.testbed.mesh.agent", str(theirs.fileno()), str(parent), str(folder)]
        self._log = folder / "agent.log"
        with theirs, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "remove" if remove else "keep"],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._channel = ours
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        return self._ask(do, arguments)[0]

    def ask_for(self, do: str, **arguments: Any) -> tuple[dict[str, Any], socket.socket]:
        """An answer that comes with a socket."""
        answer, descriptors = self._ask(do, arguments)
        return answer, socket.socket(fileno=descriptors[0])

    def _ask(self, do: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            try:
                self._channel.send(json.dumps({"do": do, **arguments}).encode())
                message, control, _, _ = self._channel.recvmsg(MESSAGE, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
            except OSError:
                message, control = b"", []
        if not message:
            said = self._log.read_text(errors="replace").strip().splitlines()
            raise StartError(f"the process that holds the namespaces has ended{': ' + said[-1] if said else ''}")
        descriptors = array.array("i")
        for _, _, data in control:
            descriptors.frombytes(data)
        answer: dict[str, Any] = json.loads(message)
        if "error" in answer:
            raise StartError(str(answer["error"]))
        return answer, list(descriptors)

    def end(self) -> None:
        """End everything inside, and wait for it."""
        try:
            with self._lock:
                self._channel.send(b'{"do": "end"}')
        except OSError:
            pass  # it has ended already
        self._channel.close()
        try:
            self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


class Started:
    """A process that runs in a namespace from the moment this is made. `out` is what it writes to stdout, `log` to
    stderr."""

    def __init__(self, where: str, command: Sequence[str], folder: Path, agent: Agent, user: int | None = None) -> None:
        name = f"{where.replace('/', '-')}.{Path(command[0]).name}"
        self.where = where
        self.out, self.log = folder / f"{name}.out", folder / f"{name}.log"
        self._agent = agent
        files = {"out": str(self.out), "errors": str(self.log)}
        answer = agent.ask("spawn", where=where, command=list(command), user=user, **files)
        self.pid = int(answer["pid"])

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        self._agent.ask("signal", pid=self.pid, number=int(signal.SIGKILL))

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        found = self._agent.ask("poll", pid=self.pid)["code"]
        return None if found is None else int(found)


class Arrival(NamedTuple):
    """One request (tcp: one connection) as it reached a process."""

    at: float
    """`time.monotonic()` when it had arrived: comparable between processes of one machine."""
    place: str
    """Which replica, or outside party: `search/0`."""
    seen: Seen


class Pod:
    """The process of one replica, or of an outside party that is called. Safe to use from several threads."""

    def __init__(self, place: str, pid: int, control: socket.socket) -> None:
        self.place = place
        self.pid = pid
        self._control = control
        self._channel = control.makefile("rwb")
        self._lock = threading.Lock()

    def await_ready(self) -> None:
        """Until it listens on all its ports. Raises `StartError` where it cannot."""
        said = self._read()
        if "error" in said:
            raise StartError(str(said["error"]))

    def arrivals(self, *, forget: bool = False) -> list[Arrival]:
        """What reached it since it was last told to forget."""
        with self._lock:
            self._channel.write(json.dumps({"forget": forget}).encode() + b"\n")
            self._channel.flush()
            found = self._read()
        made = []
        for at, fields in found:
            fields["headers"] = tuple((str(name), str(value)) for name, value in fields["headers"])
            made.append(Arrival(at, self.place, Seen(**fields)))
        return made

    def _read(self) -> Any:
        line = self._channel.readline()
        if not line:
            raise StartError(f"the process of `{self.place}` has ended; its log is beside those of the proxies")
        return json.loads(line)

    def close(self) -> None:
        self._channel.close()
        self._control.close()
