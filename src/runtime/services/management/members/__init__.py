"""Members: people who act for an organization or in its zones, and their invitations."""
