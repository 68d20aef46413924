"""Signing users in at providers outside this service."""
