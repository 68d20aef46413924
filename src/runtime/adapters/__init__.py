"""Everything outside this process but storage: keys, passwords, the policy engine, outbound HTTP, mail."""
