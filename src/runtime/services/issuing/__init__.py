"""What a token says before it is text, and its text: targets, policy decisions, claims, the token cache."""
