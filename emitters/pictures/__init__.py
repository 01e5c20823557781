"""Pictures of a placement, as text."""
