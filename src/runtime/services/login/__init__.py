"""Ways to sign in: a password, an identity provider upstream, an invitation."""
