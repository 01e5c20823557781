"""From files to snapshots: reads, solves and emits in a process of its own."""
