"""Policy bundles: a user's own policies for applications, fetched, replaced and reset as one archive."""
