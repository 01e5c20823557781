"""The webhook: puts ADMs into pods as the API server creates them. Every replica answers, active or not.

watch --specs--> InjectionSpec of each namespace
AdmissionReview --listener--> review --> AdmissionReview with a JSON Patch
authority --configuration--> `caBundle`, by which the API server trusts the replicas
"""
