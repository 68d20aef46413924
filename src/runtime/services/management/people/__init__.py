"""People whom a zone knows: users and groups, the roles they hold, their sessions and grants."""
