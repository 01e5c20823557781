"""Answers to `admc explain`: why a service has an ADM, why a policy is at its side, and the meaning of a kind.

Program, Placement, name --answers--> Explanation --render--> text | Markdown | JSON
kind --kind--> Explanation
"""
