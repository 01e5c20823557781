"""The application: the commands, and all that they read and write. No other package uses files and the terminal.

    cli                       one command a module
    review, kubernetes        what people judge a change by; a cluster around the server
    serve                     configures running ADMs
    compile                   a program -> a verified plan, its explanation, its files
    cost                      a placement and a profile -> CPU, latency, memory
    testbed                   real Envoys and echo services on this machine
    base, pod                 what all rooms share; what runs in pods

A room imports only rooms on lines below its own, which `make lint` holds. Each may import `dsl`, `solver`, `emitters`
and `xds_server`.
"""

__version__ = "0.1.0"
