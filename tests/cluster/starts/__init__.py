"""Pods that call as soon as their container runs: in how many starts does the first request meet its policy?

python -m tests.cluster.starts [--starts 200]
"""
