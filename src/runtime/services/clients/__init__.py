"""Client authentication: one function for the token, revocation, introspection and pushed request endpoints.

A module for each method: `client_secrets` (`client_secret_basic`, `client_secret_post` and `none`),
`assertions` with `private_key_jwt` (a JWT that the client signed with its own key), `workload_identity`
(a token that a provider issued to the client's workload).
"""

from runtime.services.clients.authentication import authenticate_client
from runtime.services.clients.authentication_throttling import FailedAuthenticationThrottle
from runtime.services.clients.client_secrets import basic_credentials

__all__ = [
    "FailedAuthenticationThrottle",
    "authenticate_client",
    "basic_credentials",
]
