"""Storage: tables in SQL, and short-lived state in memory or Redis."""
