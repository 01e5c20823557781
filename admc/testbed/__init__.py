"""A program's services, clients and Envoys on loopback: what `admc try` runs, and what tests of real proxies build on.

    program -> placement -> emitted files -> [Envoys in front of echo services] -> requests -> findings

Nothing here needs a privilege: each service has its own address in 127.0.0.0/8 instead of a network namespace, and
clients connect to explicit listeners of the Envoys instead of being redirected.
"""
