"""Shows the state of the server to operators, to Prometheus and to `admc inject`.

    state of the server --status, metrics, injection--> documents --http--> clients
    events and findings --events, problems--> standard error

Nothing here changes the served configuration; `http` only passes the commands of an operator on.
"""
