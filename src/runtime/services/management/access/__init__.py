"""Authorization of management API calls: the caller, and the permissions of roles."""
