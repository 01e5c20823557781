"""Estimates what ADMs add to each request of a program: mean and worst latency, and CPU.

request statements, costs of calls --paths--> the longest path of each outcome --estimate--> latency, CPU
"""
