"""The objects `Injection`: what the pods of a namespace need, for those who put ADMs into pods.

plans, selectors --writer--> Injection NAME of each namespace --reading--> admc inject NAME
"""
