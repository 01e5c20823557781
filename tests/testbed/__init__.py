"""Tests of the testbed on loopback (`admc.testbed`), and the testbed in network namespaces (`tests.testbed.mesh`)."""
