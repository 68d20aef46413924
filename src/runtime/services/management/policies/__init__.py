"""Policies, the sets that decide, and the schemas they are written against."""
