"""From one plan to the next: every request meets what exactly one of the two plans enforces on it.

    (old, new, key) --steps--> {StepName: Step} --Emitted--> the resources of each ADM, step by step

A *step* is data: the configuration of each service's ADM, and the conditions under which the next step may follow.
Nothing here uses a clock, a server or a disk.

The order of reading: `model`, `network` (what NetworkPolicies admit), `enforcement` (two plans in one frame), `diff`
(which ports move), `schedule` (which plan each end enforces in each step), `own_requests` and `refusals` (plans that no
safe steps lead to), `steps`, `route_overlay` (a step in route tables), `chains` (one filter chain with the filters of
both plans), `resources`, `retention` (resources that older connections need); then `rollout_state` and `reducer` (the
present label, and when the next one follows).
"""
