"""The application: command line, compile pipeline, plan and server. The only package that uses files and the
terminal."""

__version__ = "0.1.0"
