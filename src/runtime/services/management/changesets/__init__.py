"""A whole configuration at once: read as a snapshot, changed by a changeset."""
