"""The files that an Envoy starts from: complete in themselves, or naming the xDS server that has the rest."""

from emitters.envoy.bootstrap.bootstrap import BOOTSTRAP, static_json, xds_bootstrap

__all__ = ["BOOTSTRAP", "static_json", "xds_bootstrap"]
