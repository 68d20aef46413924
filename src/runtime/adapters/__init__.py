"""Adapters to the outside, storage excepted: keys, passwords, the policy engine, outbound HTTP, mail."""
