"""Formulas that learn from the Domain alone: whitelist, public frame, design."""
