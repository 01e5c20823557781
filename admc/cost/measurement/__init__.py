"""Measures a profile on this machine, with real proxies between a load and echo services.

    Program --uses--> policies --layout--> arms, and the files that admc emits --bed--> running processes
    running processes --session, design--> slices --table--> runs --profile_import--> NewProfile

    arm     a hop that is measured: a bare one, or one with a policy
    cell    a rate and a size
    slice   load on one arm in one cell, or on two whose requests alternate, for at most two seconds
    turn    slices of each arm in each cell, as long as intervals are not narrow

The measurement runs in a process of its own (`child`). `sampler` and `stacks` split the CPU of a proxy into parts.
"""
