"""What the API server and istiod would accept: schemas and CEL rules of custom resources, and MeshConfig.

    Object --checks--> Violation        data of a ConfigMap --mesh_config--> MeshConfig

`data` reads the data file, which `python -m tests.istio.schemas` builds. Only `admc advise` loads it.
"""
