"""The examples, tried out."""
