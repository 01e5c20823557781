"""Measures a profile on this machine: load, echo services, and real proxies with the configuration that admc emits.

    arms, grid --design--> slices --session, in a process of its own (child)--> rows --table--> runs --fit--> NewProfile

`sampler` and `stacks` say which part of a hop the CPU of a proxy goes to.
"""
