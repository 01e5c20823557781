"""The Kubernetes cluster around `admc serve`: the objects that the server reads there, and those that it writes.

Program, Services, Pods, Namespaces --list and watch--> records --> program, addresses, facts, identities
state, plan, NetworkPolicies, status --server-side apply--> cluster
"""
