"""What runs in a pod beside Envoy: it loads the packet filter rules, and waits until the pod's address is known.

Imports the standard library and what it needs to speak to the server; never the compiler.
"""
