"""The job queue between API and workers, in memory or in Redis."""
