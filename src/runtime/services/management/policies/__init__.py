"""Policies, policy sets, and the schemas they are validated against."""
