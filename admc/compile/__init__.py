"""From a program on disk to a verified plan.

    path --programs--> files --pipeline--> Program, Placement, Plan
                                 |-- facts           what a cluster shows of the services
                                 |-- reviewed_plan   the decisions of a plan that fits the program
                                 `-- conflicts       the lines behind an impossible placement
    Plan --plan--> its file, its summary      Placement --explain--> reasons      Placement --emit--> files of Envoy

`pipeline` is the one way from a path to a plan: every command and the server take it. Nothing here writes a file but
`emit.folder`.
"""
