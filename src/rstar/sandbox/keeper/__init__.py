"""The processes between us and the code: a warm zygote, and keepers that fork, freeze and end runs. Trusted."""
