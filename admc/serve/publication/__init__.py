"""From one plan to the next under traffic: publishes the steps of `admc.serve.rollout`, and waits for the proxies.

    newest plan, answers of proxies --controller--> next state, stored --publisher--> snapshots of each service

`controller` stores a state before it publishes it. `plans` builds the snapshots of each plan and each step, `addresses`
decides their addresses, `closing` decides which destinations are closed meanwhile, and `progress` writes the sentences
for people.
"""
