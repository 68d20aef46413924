"""Sealing what is stored, and signing and verifying tokens."""
