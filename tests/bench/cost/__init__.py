"""What a mesh costs: hotel reservation without one, with a full one and with a compiled one, under one load.

    walk (what a request does) -> [Go application, one process a replica] <- schedule (fixed in advance, open loop)
    for each round: none, full, compiled -> latencies, CPU, memory -> medians and ratios

The reading order: `walk`, `schedule`, `arm` (one mode, from start to figures), `figures`, `report`.
"""
