"""Programs that use deerstore as a gateway would."""
