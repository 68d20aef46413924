"""Connect: a user opens the `error_uri` of a refused application, and authorizes it for a resource."""
