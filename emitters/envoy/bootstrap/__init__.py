"""The files from which an Envoy starts: complete ones, or those that name the xDS server with all other resources."""

from emitters.envoy.bootstrap.bootstrap import BOOTSTRAP, static_json, xds_bootstrap

__all__ = ["BOOTSTRAP", "static_json", "xds_bootstrap"]
