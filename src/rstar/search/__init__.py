"""Inference-time search: trees over steps of language and code. Never sees a gold answer."""
