"""Organizations: creation and deletion, home zone, single sign-on, API keys and service accounts."""
