"""The difference of two plans.

    two names --sides--> two plans --build--> Diff --compare: steps, causes, gates--> Diff --render--> every format

`build` is a pure function of two plans; `compare` adds the parts that need their programs. A change that the comparison
cannot judge is reported as unclear, never as safe.
"""
