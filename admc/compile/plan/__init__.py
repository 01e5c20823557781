"""The plan: the file that people review, with a row for each decision and its reason.

    Program, Placement, report of costs --build--> Plan --to_json--> bytes
    bytes --read--> Plan --previous--> input of the solver, for a placement that changes as little as possible
    Plan --summary--> Summary --> summary_text | summary_markdown

Equal inputs give equal bytes on every machine. A plan that is read may be hostile or of another version.
"""
