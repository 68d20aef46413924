"""Who calls the management API: API keys, service accounts and users, each by its credential."""
