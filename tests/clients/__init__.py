"""Clients of other makes, each a program that signs a user in with the settings of docs/clients.md."""
