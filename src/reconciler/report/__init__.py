"""Plans, findings and outcomes for people and programs."""
