"""The management API's use cases: list, create, read, update and delete for any kind, and what differs."""
