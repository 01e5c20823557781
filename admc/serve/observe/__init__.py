"""Shows the state of the server to operators and to Prometheus.

    state of the server --status, metrics--> documents --http--> clients
    events and findings --events, problems--> standard error

Nothing here changes the served configuration; `http` only passes the commands of an operator on.
"""
