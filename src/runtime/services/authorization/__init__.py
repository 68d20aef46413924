"""The authorization endpoint: requests, pushed requests, consent, and the next step of a sign-in."""
