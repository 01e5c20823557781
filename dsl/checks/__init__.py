"""What policies of a resolved program mean together."""
