"""What ADMs cost by a profile: a pure function.

Program, Placement --layout--> the hops that requests pass --estimate--> Overhead
Program, every possible decision --coefficients--> costs for the solver
Program, Placement --full_mesh--> totals of a sidecar at every service
"""
