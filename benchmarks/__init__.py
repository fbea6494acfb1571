"""deerstore against its floor and against peers that do the same work: ``make bench``."""
