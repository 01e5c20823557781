"""What ADMs cost by a profile: the hops that requests pass, the costs of each, and the coefficients of the solver."""
