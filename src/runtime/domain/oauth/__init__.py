"""The OAuth checks that need no network, database or clock."""
