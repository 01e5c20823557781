"""A Kubernetes cluster around the server, and ADMs in pods.

manifests --inject--> manifests with ADMs in their pod templates
objects of a cluster --cluster--> what `admc.serve` takes from outside; NetworkPolicies, status and plan back
"""
