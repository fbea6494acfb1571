"""What database administrators use: the checks and the books of the query files."""
