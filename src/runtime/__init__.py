"""The service: a management API, and an OAuth 2.1 / OpenID Connect server at the address of every zone."""
