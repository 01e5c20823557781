"""From a program and addresses to snapshots, in a process of its own, so that the event loop goes on.

    files --inputs--> content --source--> State --snapshots--> a snapshot for each service
    new addresses --address_deps--> the services whose configuration they can change

`worker` is the side of the server, `worker_process` the main module of the process.
"""
