"""Signing out: of the zone with everything below the browser's session, and of the zone's provider."""
