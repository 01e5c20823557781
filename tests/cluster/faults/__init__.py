"""Faults in the middle of a move, on a real node and under traffic.

python -m tests.cluster.faults [--only NAME] [--seed N] [--drain SECONDS]
"""
