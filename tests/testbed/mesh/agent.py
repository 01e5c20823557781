"""The one process inside: it holds all namespaces, starts everything in them, and ends with its parent.

    python -m tests.testbed.mesh.agent CONTROL PARENT FOLDER keep|remove

The namespaces have no names. They live as long as this process holds their descriptors (or a socket in them is open),
so there is nothing to clean up when it is killed: its children get SIGKILL from the kernel, and namespaces without
an open descriptor are removed.
It ends when its control socket closes, which is also what happens when the other side is killed.

A socket belongs to the namespace that it was made in, not to that of the process that uses it. So callers need not be
inside: the agent makes sockets and hands them out. In this way a user without privileges reaches namespaces that they
may not enter.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.testbed.mesh import kernel, pod
from tests.testbed.mesh.needs import environment, isolate

MESSAGE = 1 << 20
STEP_SECONDS = 30.0


class Agent:
    """Answers requests, one at a time. `networks` are the descriptors that keep the namespaces alive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.networks: dict[str, int] = {}
        self.children: dict[int, subprocess.Popen[bytes]] = {}
        self.pods: list[int] = []

    def answer(self, asked: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The answer and the descriptors that go with it (ours to close afterwards)."""
        action = getattr(self, f"do_{asked.pop('do')}")
        result: tuple[dict[str, Any], list[int]] = action(**asked)
        return result

    def do_build(self, plan: str) -> tuple[dict[str, Any], list[int]]:
        """Make the namespaces and run, for the node and then for all at once, what the plan says."""
        content = json.loads(Path(plan).read_text())
        for name in content["namespaces"]:
            self.networks[name] = kernel.new_network()
        paths = {name: f"/proc/{os.getpid()}/fd/{network}" for name, network in self.networks.items()}
        self.networks["node"] = self.home
        _settings(content["node"]["settings"])
        for command, text in content["node"]["steps"]:
            self._wait([self._begin("node", command, text.format_map(paths))])
        namespaces = content["namespaces"].items()
        for name, own in namespaces:
            with self._inside(name):
                _settings(own["settings"])
        most = max((len(own["steps"]) for _, own in namespaces), default=0)
        for index in range(most):
            self._wait([self._begin(name, *s) for name, own in namespaces for s in own["steps"][index : index + 1]])
        return {"networks": {name: os.fstat(network).st_ino for name, network in self.networks.items()}}, []

    def do_socket(self, where: str, family: int, kind: int, protocol: int) -> tuple[dict[str, Any], list[int]]:
        with self._inside(where):
            made = socket.socket(family, kind, protocol)
        return {}, [made.detach()]

    def do_run(self, where: str, command: list[str], text: str) -> tuple[dict[str, Any], list[int]]:
        """A command to its end."""
        with self._inside(where):
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, env=environment(), timeout=STEP_SECONDS
            )
        return {"code": done.returncode, "out": done.stdout, "error_text": done.stderr}, []

    def do_spawn(
        self, where: str, command: list[str], out: str, errors: str, user: int | None = None
    ) -> tuple[dict[str, Any], list[int]]:
        """A process that runs on, and dies with this one; as another user, if one is given, and without privileges."""
        own = os.getpid()

        def prepare() -> None:
            if user is not None:
                kernel.become(user)
            kernel.die_with(own)  # a change of user takes it away

        with self._inside(where), Path(out).open("ab") as output, Path(errors).open("ab") as error:
            for file in (output, error):
                if user is not None:  # as container runtimes do: the process may open it by its name
                    os.fchown(file.fileno(), user, user)
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=error,
                env=environment(),
                preexec_fn=prepare,  # noqa: PLW1509 (there is one thread here)
            )
        self.children[process.pid] = process
        return {"pid": process.pid}, []

    def do_poll(self, pid: int) -> tuple[dict[str, Any], list[int]]:
        return {"code": self.children[pid].poll()}, []

    def do_signal(self, pid: int, number: int) -> tuple[dict[str, Any], list[int]]:
        """Send a signal to a process started here; SIGKILL also waits for its end."""
        process = self.children[pid]
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait()
        return {}, []

    def do_serve(
        self, where: str, service: str, ports: list[dict[str, Any]], only: list[str] | None
    ) -> tuple[dict[str, Any], list[int]]:
        """Fork the process of a pod; the answer carries the socket by which it is asked."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                kernel.die_with(parent)
                ours.close()
                kernel.enter(self.networks[where])
                with (self.folder / f"{where.replace('/', '-')}.echo.log").open("wb") as log:
                    os.dup2(log.fileno(), 2)
                pod.serve(service, ports, only, theirs)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self.pods.append(child)
        return {"pid": child}, [ours.detach()]

    def end(self) -> None:
        """End every child, and wait until it is gone."""
        for pid in [*self.children, *self.pods]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.children.values():
            process.wait()
        for pid in self.pods:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def _inside(self, where: str) -> contextlib.AbstractContextManager[None]:
        return kernel.inside(self.networks[where], self.home)

    def _begin(self, where: str, command: list[str], text: str) -> tuple[str, subprocess.Popen[bytes]]:
        with self._inside(where):
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment(),
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its message says more
            process.stdin.write(text.encode())
            process.stdin.close()
        process.stdin = None
        return f"`{' '.join(command)}` in `{where}`", process

    def _wait(self, begun: list[tuple[str, subprocess.Popen[bytes]]]) -> None:
        wrong = []
        for what, process in begun:
            _, errors = process.communicate(timeout=STEP_SECONDS)
            if process.returncode:
                wrong.append(f"{what}: {errors.decode(errors='replace').strip()}")
        if wrong:
            raise OSError(wrong[0])


def _settings(pairs: list[list[str]]) -> None:
    for name, value in pairs:
        path = Path("/proc/sys") / name
        if path.exists():
            path.write_text(value)


def _heard(channel: socket.socket) -> bytes:
    """The next message; nothing where the other side is gone."""
    try:
        return channel.recv(MESSAGE)
    except ConnectionError:
        return b""


def _hang_up(channel: socket.socket) -> None:
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)


def main(control: int, parent: int, folder: Path, remove: bool) -> None:
    """`parent` gets this process ended when its thread ends (0: only the closing of the socket does); `remove` says
    whether this process removes the folder after the end of its parent."""
    with contextlib.suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side decides when to end
    with socket.socket(fileno=control) as channel:
        # Not an exception: it could come in the midst of cleaning up.
        signal.signal(signal.SIGTERM, lambda *_: _hang_up(channel))
        if parent:
            kernel.die_with(parent, signal.SIGTERM)
        isolate()
        agent = Agent(folder)
        abandoned = True
        try:
            while message := _heard(channel):
                asked = json.loads(message)
                if asked["do"] == "end":
                    abandoned = False
                    break
                try:
                    result, descriptors = agent.answer(asked)
                except (OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
                    result, descriptors = {"error": f"{error}"}, []
                with contextlib.suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # the next message says that it is over
                    socket.send_fds(channel, [json.dumps(result).encode()], descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
        finally:
            agent.end()
            if abandoned and remove:
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4] == "remove")
