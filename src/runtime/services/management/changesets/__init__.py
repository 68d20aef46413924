"""Snapshots and changesets of a whole configuration."""
