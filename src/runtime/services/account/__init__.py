"""The account page: a user reviews and withdraws consents, grants and sessions."""
