"""Ending sessions: RP-initiated logout, back-channel logout both ways."""
