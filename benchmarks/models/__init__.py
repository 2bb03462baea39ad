"""Models beside one regression table."""
