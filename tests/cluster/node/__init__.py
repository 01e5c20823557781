"""A whole node of a cluster in namespaces of its own: nothing of it is seen or left on the machine.

API server, controller manager, scheduler, kubelet, kube-proxy, containerd, runc, network policies, names of Services.
"""
