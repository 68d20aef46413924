"""Zones and their configuration: applications, resources, providers, credentials, secrets, keys."""
