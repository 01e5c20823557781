"""The programs that run in a pod beside Envoy: one loads the packet filter rules, one waits until ADMs know the address
of the pod.

They import the standard library, gRPC to speak to the server, and the rules of a pod in `emitters.interception`; never
the compiler.
"""
