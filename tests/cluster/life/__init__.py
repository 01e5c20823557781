"""Life of a program on a real node, under traffic: what each request met is counted where it arrives.

python -m tests.cluster.life [--keep DIR]
"""
