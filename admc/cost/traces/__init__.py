"""Reads recorded requests (traces), and reports what ADMs add to them, or writes them as `request` statements.

    files --read--> rows or spans --calls, spans--> Linked --forest--> Forest
    Forest --evaluate, report--> TraceReport --> text | json
    Forest --shapes, requests--> Import --requests_adm--> a file of the language

A trace becomes a tree of calls. A tree is taken whole or dropped whole: `drops` counts dropped trees by reason.
"""
