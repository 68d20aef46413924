"""Changesets of a whole configuration; `pipeline` is the way in."""
