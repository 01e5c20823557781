"""The application: command line, pipeline and plan. The only package that touches files and the terminal."""

__version__ = "0.1.0"
