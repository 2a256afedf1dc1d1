"""The workers of the judge: they take jobs and do them in a sandbox of their own."""
