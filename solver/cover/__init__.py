"""Which services have to host an ADM, as a weighted vertex cover, for what needs no general solver."""
