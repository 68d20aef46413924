"""Use cases: permission, then rules, then storage. A transaction is one use case."""
