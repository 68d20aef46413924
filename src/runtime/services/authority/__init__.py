"""Checks that sessions, users, consents and grants are active; subject tokens; revalidation by epoch."""
