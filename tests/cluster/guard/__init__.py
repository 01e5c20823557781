"""The guard of the chart, in a real API server."""
