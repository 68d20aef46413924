"""Replay: what recorded decisions would be under policies and entities that are proposed."""
