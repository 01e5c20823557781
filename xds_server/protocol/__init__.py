"""The protocol on one stream, in both variants: pure, without input, output or clocks."""
