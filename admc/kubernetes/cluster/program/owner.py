"""The Program as the owner of the objects that an installation writes for it: the cluster removes them with the
Program.
"""

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
