"""Estimates what ADMs cost by a profile. The model is a pure function.

Program, Placement --layout--> the hops that requests pass --estimate--> Overhead
Program, every possible decision --coefficients--> costs for the solver
Program, Placement --full_mesh--> totals with a sidecar at every service
"""
