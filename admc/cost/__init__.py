"""Estimates what each ADM costs before it is deployed.

    profile (measured costs) --profiles--.
    Program, Placement ---------------> model --> report --> overhead_text | overhead_json, rows of a plan
                                          |         |-- requests   the longest path and the CPU of a request
                                          |         |-- money      prices of the user
                                          |         `-- what_if    the same estimate after a change
                                          `--> coefficients of the solver
    recorded requests --traces--> the cost of each request, or `request` statements
    this machine --measurement--> runs --profile_import--> profile

The model is a pure function. It never reports an unknown figure as zero: it lists the figure as missing, and each sum
over it is a lower bound.
"""
