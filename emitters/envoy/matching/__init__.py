"""Matches and addresses as predicates of Envoy's matching API."""
