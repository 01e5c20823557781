"""What Envoy cannot express, and which addresses are missing: found before anything is built."""
