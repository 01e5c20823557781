"""Compiles a program and addresses to snapshots, in a process of its own, so that the event loop is not blocked.

    files --inputs--> content --source--> State --snapshots--> a snapshot for each service
    new addresses --address_deps--> the services whose configuration they can change

`worker` is the part in the server, and `worker_process` is the main module of the process.
"""
