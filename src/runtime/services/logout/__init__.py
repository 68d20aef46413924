"""Logout: RP-initiated, and back-channel in both directions."""
