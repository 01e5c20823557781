"""From one plan to the next under traffic: publishes the steps of `admc.rollout`, and waits for the proxies."""
