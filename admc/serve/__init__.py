"""`admc serve`: keeps the ADMs of a program configured while the program and the addresses change.

    files --feed--> State --groups--> {service: Snapshot} --inforce--> xds_server

`feed` reads and decides (in a process of its own, `worker`), `groups` turns a state into what each ADM is told,
`moving` leads from one plan to another in steps, with `capturing` for what is to be redirected meanwhile; `watch` says
when a file has changed, `kept` and `record` are what survives a restart, `identity` says who may ask; `serving` lets
one thing follow from another, `run` starts and ends it all.
"""
