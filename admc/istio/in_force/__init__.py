"""Which resource of Istio is in force at which sidecar, by Istio's own rules.

    Mesh --view--> View, one for each revision --judge--> InForce: effects, findings, and what is not in force

One module judges one kind. Each rule was read in Istio's source, at the version of the data file of schemas.
"""
