"""Tables, queries and migrations. Functions take a connection that the caller opened; entities come out, never rows."""
