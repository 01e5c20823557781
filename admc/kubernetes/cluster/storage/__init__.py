"""The kept state in Secrets, from which a restarted server, or another replica, goes on.

StoredState --admc.serve.storage.contents--> manifest + objects by digest --packs--> parts --secrets--> API server
"""
