"""The speed of `admc advise`: many pods, as a cluster shows them."""
