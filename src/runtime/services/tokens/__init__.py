"""Introspection (RFC 7662) and revocation (RFC 7009) of issued tokens."""
