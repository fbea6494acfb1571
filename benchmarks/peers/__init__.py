"""Peers: other usual ways to do the same work on the same tables, with the same durability."""
