"""Users and groups of a zone, role assignments, sessions and delegated grants."""
