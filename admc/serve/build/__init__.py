"""From files to snapshots, in a process of its own: read, compile or check a reviewed plan, emit."""
