"""The tests, their fixtures and the private servers they run against."""
