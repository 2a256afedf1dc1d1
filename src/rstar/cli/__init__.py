"""The command line: one small module per command, each a thin layer over the Python API."""
