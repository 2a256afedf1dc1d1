"""The HTTP API of the judge: requests in, jobs to the queue, replies out."""
