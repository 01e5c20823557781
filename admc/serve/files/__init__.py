"""The file side of `admc.serve.environment`: the state folder, and redirection that an operator confirms."""
