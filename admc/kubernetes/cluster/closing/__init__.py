"""The NetworkPolicies of closed destinations (rule R7) in a cluster: written, watched, and waited for.

program + selectors --emitters.kubernetes--> NetworkPolicies --server-side apply--> cluster
cluster's NetworkPolicies --admission--> those that admit more than ours
"""
