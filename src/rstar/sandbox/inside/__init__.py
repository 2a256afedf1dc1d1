"""What shares a process with model-written code. Nobody trusts what it says."""
