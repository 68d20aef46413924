"""The rest of the outside: keys, passwords, policy engine, outbound HTTP and identity providers."""
