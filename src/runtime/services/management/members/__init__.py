"""People who act for an organization or in its zones, and how they are invited."""
