"""Policy bundles: what a user lets applications do, fetched, replaced and reset as one archive."""
