"""What the policy engine is asked, the words rules are written in, and the rules a zone starts with."""
