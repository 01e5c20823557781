"""What clients may take of the server, and what happens beyond that."""
