"""Local inference with torch, in this process or in worker processes."""
