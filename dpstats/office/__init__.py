"""The office: rows stay with their keeper, and analysts ask over the network."""
