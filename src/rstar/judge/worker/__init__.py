"""Judge workers, which take jobs and run them in their own sandbox."""
