"""Token issuance: target checks, policy decision, claims and signing, the cache of exchanged tokens."""
