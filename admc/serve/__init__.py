"""`admc serve`: keeps the ADMs of a program configured while the program and the addresses change.

    environment (files or a cluster)
        --compiling--> State, snapshots --active_config--> publication --> snapshot store --> xds_server
                                                              |-- rollout   which step is next: pure
                                                              `-- storage   what a restart needs, stored first

`reconciler` connects them: it compiles when the program changes, and applies the result; on an error the last good
state stays. `files` is the environment of files, `auth` authenticates proxies, `observe` has logs, metrics and status,
`app` starts and stops the server.
"""
