"""The domain model: pure, without network, database or clock."""
