"""Cedar: authorization requests, schema versions, default policies and policy bundle archives."""
