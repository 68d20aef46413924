"""Organizations: their making and their end, their own zone, and what signs in and calls for them."""
