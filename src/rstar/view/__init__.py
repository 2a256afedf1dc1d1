"""Looking at runs: reads run folders, knows nothing of how they were made."""
