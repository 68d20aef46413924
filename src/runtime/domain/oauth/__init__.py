"""OAuth and OpenID Connect rules as pure functions: no network, database or clock."""
