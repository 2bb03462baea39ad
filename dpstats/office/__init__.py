"""The office: rows stay with their keeper, analysts ask over the network."""
