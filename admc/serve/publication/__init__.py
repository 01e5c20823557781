"""From one plan to the next under traffic: publishes the steps of `admc.serve.rollout`, and waits for the proxies.

    newest plan, answers of proxies --controller--> next state, stored --publisher--> snapshots of each service

`controller` stores a state before it publishes it. `plans` has what each plan and each step publishes, `addresses` at
which addresses, `closing` which destinations are closed meanwhile, `progress` the sentences about it.
"""
