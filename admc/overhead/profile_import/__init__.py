"""Makes profiles of files that are none: raw runs of a measurement, and the pickle of MeshInsight's tool."""
