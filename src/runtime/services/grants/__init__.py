"""The grant types of the token endpoint, one module each, and the phases that they share."""
