"""The command line: one command a module, and nothing heavy loaded before a command runs."""
