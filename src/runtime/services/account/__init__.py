"""What users see of what they allowed, and how they take it back."""
