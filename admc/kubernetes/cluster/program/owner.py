"""The Program as the owner of what an installation writes for it: objects go with it."""

from __future__ import annotations

from typing import Any, NamedTuple

from admc.kubernetes.cluster.names import GROUP, VERSION

KIND = "Program"


class Owner(NamedTuple):
    name: str
    uid: str

    @property
    def reference(self) -> dict[str, Any]:
        """For `metadata.ownerReferences`."""
        return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "name": self.name, "uid": self.uid}
