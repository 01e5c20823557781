"""The same promise where connections are redirected: a namespace for each replica, rules and ADMs as they are emitted.

    program -> requests (`derive`) -> none, full mesh, compiled (`observing`) -> judge (`judging`) -> differences

On loopback (`tests.fidelity`) every kind and pair is tried on one call with one process at each end. Here is what needs
a network: whole examples, replicas, IPv6, HTTP/2 callers, pod addresses, undeclared callers, and ways round.
"""
