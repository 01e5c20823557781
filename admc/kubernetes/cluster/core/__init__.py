"""What a cluster shows of the programs that an installation serves, as functions without effects.

    watches --with_pod, with_service, ...--> Change of the View
    State, Change, what was read, now --step--> State, Outputs, deadline
        FollowedProgram: Selection --> facts, addresses, mismatches of one program's services

Nothing here waits, reads a clock or calls the API server. `admc.kubernetes.cluster.program_source` calls `step` and
carries out its outputs.
"""
