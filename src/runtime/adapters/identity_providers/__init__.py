"""Sign-in at external identity providers (OpenID Connect, OAuth 2.0)."""
