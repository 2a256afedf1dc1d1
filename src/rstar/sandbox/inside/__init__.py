"""Untrusted code that shares a process with model-written code."""
