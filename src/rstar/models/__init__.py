"""Asking a model for text: one `Engine` protocol, and a local torch engine, a server client and a fake behind it."""
