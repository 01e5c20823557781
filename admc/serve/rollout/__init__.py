"""From one plan to the next: every request meets what exactly one of the two plans enforces on it.

    (old, new, key) --steps--> {StepName: Step} --Emitted--> the resources of each ADM, step by step

A *step* is data: what each service's ADM gets, and what has to be true before the next step. Nothing here knows of a
clock, a server or a disk.

The order of reading: `model`, `enforcement` (two plans in one frame), `diff` (which ports move), `schedule` (which plan
holds at which end in which step), `own_requests` and `refusals` (what has no safe way), `steps`, `route_overlay` (a
step in route tables), `chains` (one filter chain with the filters of both plans), `resources`, `retention` (what older
connections need); then `rollout_state` and `reducer` (where a rollout is, and when it goes on).
"""
