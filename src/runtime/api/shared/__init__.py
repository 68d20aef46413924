"""Shared by every endpoint: request ids, error bodies, strict bodies, cursors, query parameters."""
