"""The application graph: services, externals and the calls between them."""
