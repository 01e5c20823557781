"""Where services and outside parties are, and whose a connection is by its addresses.

endpoints file, cluster or loopback plan -> Addresses -> index of parties by network
"""

from emitters.addresses.model import Addresses, Network, ServiceAddresses, from_json, loopback, network, peers

__all__ = ["Addresses", "Network", "ServiceAddresses", "from_json", "loopback", "network", "peers"]
