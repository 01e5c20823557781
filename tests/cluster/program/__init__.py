"""The object `Program`: its definition, its spec, its status, and its plan."""
