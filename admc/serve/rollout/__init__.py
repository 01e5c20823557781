"""From one plan to the next under traffic: publishes the steps of `admc.transition`, and waits for the proxies."""
