"""Who calls the management API, and what they may do."""
