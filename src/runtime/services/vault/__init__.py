"""The vault: upstream credentials of users, kept sealed and handed out by token exchange."""
