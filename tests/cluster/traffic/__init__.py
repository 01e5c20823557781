"""A program on a real node under traffic: the installation, the callers, and what their requests met.

`tests.cluster.life` and `tests.cluster.faults` have what is done to it meanwhile.
"""
