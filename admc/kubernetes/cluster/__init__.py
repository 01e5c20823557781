"""A Kubernetes cluster as the surroundings of `admc serve`: what it reads there, and what it writes.

Program, Services, Pods, Namespaces --list and watch--> records --> program, addresses, facts, identities
state, plan, NetworkPolicies, status --server-side apply--> cluster
"""
