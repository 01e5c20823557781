"""The one diagnostic model, and what every code of the language means."""
