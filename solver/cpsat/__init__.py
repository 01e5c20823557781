"""The rules as a CP-SAT model, for decisions that reductions alone cannot solve."""
