"""Recorded requests: read as columns, evaluated tree by tree, or summed up as `request` statements.

    files --read--> rows or spans --calls--> Forest --evaluate, report--> what ADMs add --> text | json
                                              `--shapes, requests--> statements --requests_adm--> a file of the language

What is not taken is counted with its reason (`drops`).
"""
