"""A bed of real parts on loopback: echo services, clients with a chosen source address, and Envoys.

    program -> placement -> emitted files -> [Envoys in front of echo services] -> probes -> observations

Nothing here needs a privilege: each service has an address of its own in 127.0.0.0/8 instead of a network namespace,
and explicit listeners instead of redirection.
"""
