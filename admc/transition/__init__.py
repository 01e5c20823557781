"""From one state to the next without a gap: the new side is in force before the old one lets go.

    (old, new, key) --steps--> [Step, ...] --resources--> what each ADM is told, step by step

A *step* is data: what each service's ADM gets, who has to acknowledge it, and what has to be waited for before the next
one. Printing a transition and walking it read the same steps, so the two cannot drift apart.

The order of reading: `change` (what comes, leaves, stays), `asks` (which destinations come first), `schedule` (who is
there when, and which requests meet them), `steps` (what happens when), `between` (a step's policies as a program and a
placement of their own), `captures` (what has to be redirected for that), `toggles` (what a step says in route tables),
`resources`, `driver` (when a step is over), `older` (what policies are called while older connections know others).
"""
