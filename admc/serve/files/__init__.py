"""The environment of files (`admc.serve.environment`).

program, endpoints, identities --environment--> what the server takes from outside
kept state --state_dir--> a folder, whole or unchanged
plans --redirection--> what pods have to redirect; an operator confirms it
"""
