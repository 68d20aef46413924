"""Delegated access at external OAuth 2.0 providers: authorization, token, refresh and revocation requests."""
