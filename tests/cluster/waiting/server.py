"""python -m tests.cluster.waiting.server FOLDER PORT: `admc serve` with files, besides that pods wait at it.

What a cluster knows of pods is in FOLDER/pods.json: for the subject of a token the pod's uid, service and addresses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from admc.kubernetes.cluster.start_gate import WaitingPod, canonical
from admc.kubernetes.cluster.waiting_pods import WaitingPods
from admc.serve.app import ListenOptions, serve
from admc.serve.auth.identity import Proof, Settings
from admc.serve.auth.tls import TlsFiles
from admc.serve.auth.tokens import bearer, load_keys
from admc.serve.compiling.source import Source
from admc.serve.environment import Serving
from admc.serve.files.environment import FileEnvironment
from admc.serve.observe.events import LogFormat
from emitters.envoy import Mode
from xds_server.transport.client import Caller, DeniedError

AUDIENCE = "admc"


class RecordedPods:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "pods.json"
        self._endpoints = folder / "endpoints.json"
        self._keys = load_keys(folder / "keys.json", AUDIENCE)

    def pod_of(self, caller: Caller) -> WaitingPod:
        found = json.loads(self._file.read_text()).get(self._keys.verify(bearer(caller.metadata)).subject)
        if found is None:
            raise DeniedError("gone", "its pod is gone")
        return WaitingPod(found["uid"], found["service"], tuple(found["addresses"]))

    def adms(self, service: str) -> int:
        return 1

    def taken(self, service: str) -> list[str]:
        found = json.loads(self._endpoints.read_text())["services"].get(service, {})
        return [canonical(each) for each in found.get("pods", ())]


class Environment(FileEnvironment):
    def __init__(self, folder: Path) -> None:
        keys = folder / "keys.json"
        settings = Settings(Proof.TOKEN, token_keys=keys, token_audience=AUDIENCE)
        super().__init__(Source(folder / "policies.adm", Mode.EXPLICIT), folder / "endpoints.json", settings)
        self._folder = folder

    def services(self, serving: Serving) -> Iterable[Callable[[Any], None]]:
        return (WaitingPods(serving, RecordedPods(self._folder), self.may_publish).add,)


if __name__ == "__main__":
    here, port = Path(sys.argv[1]), int(sys.argv[2])
    tls = TlsFiles(here / "server.crt", here / "server.key")
    sys.exit(serve(Environment(here), ListenOptions(("127.0.0.1", port), ("127.0.0.1", 0), tls, LogFormat.JSON)))
