"""`admc serve`: keeps the ADMs of a program configured while the program and the addresses change.

    files -- build --> State, SnapshotSet -- active_config, rollout --> snapshot store --> xds_server

`build` reads, compiles and emits in a worker process. `rollout` leads from one plan to the next in steps. `file_watch`
detects changed files. `storage` and `persistence` keep what a restart needs. `files` has the state folder, and the
redirection that an operator confirms. `auth` authenticates proxies. `observe` has logs, metrics and status.
`reconciler` connects them: it compiles when a file changes, and applies the result. `app` starts and stops the server.
"""
