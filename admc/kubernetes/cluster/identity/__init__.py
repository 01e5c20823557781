"""Who is who in a cluster: the token of a pod, the pod of the watch, and the Service that selects it.

    token --keys of the API server--> claims --pods--> pod --selection--> service, node id

No connection costs the API server a request.
"""
