"""Authentication of management API calls: API keys, service accounts and users."""
