"""What each ADM costs before it is deployed.

    profile (measured costs) --profiles--.
    Program, Placement ---------------> model --> report --> overhead_text | overhead_json, rows of a plan
                                          |         |-- requests   the longest path and the CPU of a request
                                          |         |-- money      prices of the user
                                          |         `-- what_if    the same, were something otherwise
                                          `--> coefficients of the solver
    recorded requests --traces--> costs of each, or `request` statements
    this machine --measurement--> runs --profile_import--> profile

The model is a pure function. A figure that is not known is missing in the result, and never zero.
"""
