"""Receivers that are restarted on a real node, one pod after the other, while callers send requests in three protocols.

python -m tests.cluster.restarts [--restarts 20] [--earlier CHECKOUT]
"""
