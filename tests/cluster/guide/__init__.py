"""The commands of docs/cluster/README.md, as a reader would run them."""
