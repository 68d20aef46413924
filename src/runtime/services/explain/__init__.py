"""Explain: what a token exchange would be answered now, by asking the rules of a real one."""
