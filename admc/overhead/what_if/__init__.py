"""What costs would be if something were otherwise: other figures, another profile, more traffic, another plan."""
