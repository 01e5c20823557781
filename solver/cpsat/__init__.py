"""The same rules as a CP-SAT model, for what reductions alone cannot decide."""
