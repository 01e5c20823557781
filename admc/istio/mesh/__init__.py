"""The mesh that objects describe: who has a proxy, and why; what is configured, and what is Istio's default.

Inputs --build--> Mesh      labels of a pod and its namespace --presence--> Presence
Mesh --references--> findings about resources that name what is not there
"""
