"""What lets somebody act here, now: sessions, users, what users allowed, and the epochs that keep it true."""
