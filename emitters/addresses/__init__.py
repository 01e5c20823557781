"""The addresses of services and outside parties, and the parties of a connection by its addresses.

endpoints file, cluster or loopback plan -> Addresses -> index of parties by network
"""

from emitters.addresses.endpoints_file import from_json
from emitters.addresses.loopback_plan import loopback
from emitters.addresses.model import Addresses, Network, ServiceAddresses, network, peers

__all__ = ["Addresses", "Network", "ServiceAddresses", "from_json", "loopback", "network", "peers"]
