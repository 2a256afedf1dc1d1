"""A model that torch runs on this machine, in this process or in worker processes."""
