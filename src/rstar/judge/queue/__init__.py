"""Between the API and the workers: who waits, in memory or in Redis."""
