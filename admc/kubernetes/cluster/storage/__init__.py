"""The kept state in Secrets: what a restarted server, or another replica, goes on from.

StoredState --admc.serve.storage.contents--> manifest + objects by digest --packs--> parts --secrets--> API server
"""
