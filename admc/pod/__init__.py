"""The programs that run in a pod beside Envoy: one loads the packet filter rules, one waits until ADMs know the address
of the pod.

They import the standard library and what they need to speak to the server; never the compiler.
"""
