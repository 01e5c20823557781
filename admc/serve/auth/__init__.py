"""Who may ask for which configuration: identities, tokens, certificates."""
