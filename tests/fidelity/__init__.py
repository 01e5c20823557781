"""On both sides a policy has the same results for clients and servers.

    program, requests -> judge (declared order, no sides)      what must be observed
                      -> none, full mesh, compiled             what is observed, on real proxies
                      -> differences

The judge is written from docs/kinds.md, docs/rules.md and docs/language.md and shares no code with what it judges.
"""
