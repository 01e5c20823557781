"""Answers to `admc explain`: why a service has an ADM, why a policy is at its side, what a kind does.

Program, Placement, name --answers--> Explanation --render--> text | Markdown | JSON
kind --kind--> Explanation
"""
