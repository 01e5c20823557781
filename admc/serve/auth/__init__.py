"""Authentication of xDS clients: identities, tokens, certificates."""
