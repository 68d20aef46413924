"""The management API over HTTP."""
