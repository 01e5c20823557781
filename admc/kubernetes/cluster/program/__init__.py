"""The object `Program`: its spec, the choice of the one that is served, and its status.

Program, ConfigMaps --spec, content--> files of a program, by content --> compile
plan, pods, proxies --status, events, plan_objects--> conditions, events, the plan in ConfigMaps
"""
