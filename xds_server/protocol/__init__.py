"""The xDS protocol for one stream, both variants: pure, without input, output or clocks."""
