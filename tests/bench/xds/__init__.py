"""The xDS server beside go-control-plane: the same resources, the same client program, in turn, on one machine."""
