"""What survives a restart of the server: the folder of `--state`."""
