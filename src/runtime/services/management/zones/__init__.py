"""What is configured in a zone, and what every zone starts with."""
