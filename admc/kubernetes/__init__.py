"""The Kubernetes cluster around the server, and ADMs in pods.

manifests --inject--> manifests with ADMs in their pod templates
objects of a cluster --cluster--> input of `admc.serve`; NetworkPolicies, status and plan back
"""
