"""Parts of configuration that several kinds use."""
