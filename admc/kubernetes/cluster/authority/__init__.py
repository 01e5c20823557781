"""The authority by which proxies trust the server, and the server's certificate (docs/cluster/identity.md, ADR 48).

Secret admc-NAME-authority --stored--> Authorities --schedule.next_step--> Step --advanced--> Authorities
                                       |  serving certificate --> TLS of the xDS server
                                       +--bundle--> ca.crt in the ConfigMaps of proxies
"""
