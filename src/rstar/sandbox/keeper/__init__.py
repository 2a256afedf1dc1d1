"""Trusted processes between parent and code: a warm zygote, and keepers that fork, freeze and kill runs."""
