"""From one plan to the next: every request meets what exactly one of the two plans enforces on it.

    (old, new, key) --diff.steps--> {StepName: Step} --resources--> the resources of each ADM, step by step

A *step* is data: the resources of each service's ADM, and what has to be true before the next step. Nothing here knows
of a clock, a server or a disk.

The order of reading: `model`, `enforcement` (two plans in one frame), `diff` (which destinations move), `schedule`
(which plan holds at which end in which step), `route_overlay` (the same in route tables), `chains` (one filter chain
with the filters of both plans), `resources`, `retention` (what older connections need).
"""
