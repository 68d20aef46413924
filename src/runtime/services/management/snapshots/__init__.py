"""Snapshots: the configuration of an organization as one stream of lines, for planning."""
