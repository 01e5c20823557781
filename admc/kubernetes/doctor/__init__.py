"""The checks of an installation in a cluster, from outside and with the account of the caller.

kubeconfig --look--> Picture --checks--> lines of `admc doctor --cluster NAME`
"""
