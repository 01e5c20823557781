"""Constant traffic through real proxies while `admc serve` restarts, is killed, and gets other programs.

    programs        variants of a program: the text of each, and its effects on a request
    judge           decides whether the result of each request is one that a program of its time allows
    bed             a server in a process of its own, Envoys, echo services and callers, on loopback
    agreement       compares the state of proxies with the status of the server
    walk            many changes in a row, with interruptions
    upgrade         the server of another release is replaced by this one
    other_release   makes a working copy whose emitter differs
    pods            proxies in namespaces, with real redirection
    pod_bed         a server, pods and callers
    pod_walk        many changes in a row, while pods start and end

A guard that moves among ADMs and the network:

    network_programs     variants of such a program
    network_plugin       applies the NetworkPolicies that the server requests
    network_bed          pods whose requests no program admits
    server_without_wait  a server with a fault

`python -m tests.serve.traffic --changes 1000` makes any number of changes.
"""
