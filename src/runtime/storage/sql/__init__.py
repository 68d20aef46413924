"""Tables, queries and migrations. Functions take a connection that is open; entities come out, never rows."""
