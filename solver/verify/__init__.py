"""The independent verifier. It shares no code with the solver's model."""
