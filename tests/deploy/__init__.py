"""The image, and the chart that installs the server."""
