"""Which services have to host an ADM, as a weighted vertex cover: enough where the objective depends on hosts alone."""
