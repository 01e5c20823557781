"""From a program on disk to a verified plan.

    path --programs--> files --pipeline--> Program, Placement, Plan
                                 |-- facts           facts of the services in a cluster
                                 |-- reviewed_plan   the decisions of a plan that fits the program
                                 `-- conflicts       the lines behind an impossible placement
    Plan --plan--> its file, its summary      Placement --explain--> reasons      Placement --emit--> files of Envoy

`pipeline` is the only way from a path to a plan, for every command and for the server. Only `emit.folder` writes files.
"""
