"""What the server shows of itself.

    state of the server --status, metrics, injection--> documents --http--> who asks
    what happens --events, problems--> standard error

Nothing here changes what is served; `http` passes the commands of an operator on.
"""
