"""An Envoy that takes its resources from files instead of a server: what changes, and what that does to connections.

The resources are the same as on a server; only every "ask the server" becomes "watch this file".
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from emitters.envoy.bootstrap import xds_bootstrap
from emitters.envoy.messages.typed import to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from google.protobuf.message import Message

    from emitters.envoy import AdmResources


class Files:
    """A folder of discovery responses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._version = 0

    def bootstrap(self, resources: AdmResources) -> Path:
        """Publish resources and write a bootstrap that watches them."""
        self.publish(resources)
        content = self._watching(to_json(xds_bootstrap(resources, ("127.0.0.1", 1))))
        content["dynamic_resources"] = {
            "cds_config": self._source("clusters"),
            "lds_config": self._source("listeners"),
        }
        path = self.folder / "bootstrap.yaml"
        path.write_bytes(to_yaml(content))
        return path

    def publish(self, resources: AdmResources) -> None:
        """Replace what is published; endpoints before clusters, routes and extensions before listeners."""
        self._version += 1
        for kind in ("endpoints", "routes", "extensions"):
            found: Mapping[str, Message] = getattr(resources, kind)
            for name, item in found.items():
                self._write(f"{kind}:{name}", [item])
        self._write("clusters", [item for name, item in resources.clusters.items() if name != resources.siblings])
        self._write("listeners", list(resources.listeners.values()))

    def _write(self, name: str, items: list[Message]) -> None:
        listed = [
            self._watching({"@type": f"type.googleapis.com/{item.DESCRIPTOR.full_name}", **to_json(item)})
            for item in items
        ]
        path = self._path(name)
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"version_info": str(self._version), "resources": listed}))
        # Envoy watches for a file that is moved into place.
        os.replace(new, path)  # noqa: PTH105

    def _path(self, name: str) -> Path:
        return self.folder / (name.replace("/", "_").replace(":", "_") + ".json")

    def _source(self, name: str) -> dict[str, Any]:
        return {"path_config_source": {"path": str(self._path(name))}, "resource_api_version": "V3"}

    def _watching(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._watching(item) for item in value]
        if not isinstance(value, dict):
            return value
        result = {}
        for key, item in value.items():
            if key == "config_discovery":
                result[key] = {**item, "config_source": self._source(f"extensions:{value['name']}")}
            elif key == "rds":
                result[key] = {**item, "config_source": self._source(f"routes:{item['route_config_name']}")}
            elif key == "eds_cluster_config":
                result[key] = {**item, "eds_config": self._source(f"endpoints:{item['service_name']}")}
            else:
                result[key] = self._watching(item)
        return result
