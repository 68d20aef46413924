"""What is true without network, database or clock."""
