"""Finds the services that have to host an ADM, as a weighted vertex cover. It sees no capacities."""
