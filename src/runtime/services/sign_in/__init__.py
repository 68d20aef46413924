"""Signing users in, and letting applications act for them: from the authorize request to tokens."""
