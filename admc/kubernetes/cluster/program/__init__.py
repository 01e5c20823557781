"""The object `Program`: what its spec says, which one is served, and what its status shows.

Program, ConfigMaps --spec, content--> files of a program, by content --> compile
plan, pods, proxies --status, events, plan_objects--> conditions, events, the plan in ConfigMaps
"""
