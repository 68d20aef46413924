"""Client authentication: one function for the token, revocation, introspection and pushed request endpoints.

A module for each mechanism: `secrets` (a password, or none for a public client), `assertions` (a JWT that the
client signed with its own key), `workloads` (a token that a provider issued to it).
"""

from runtime.services.clients.authentication import authenticate_client
from runtime.services.clients.guessing import MAX_FAILURES, SecretGuessing
from runtime.services.clients.secrets import basic_credentials

__all__ = [
    "MAX_FAILURES",
    "SecretGuessing",
    "authenticate_client",
    "basic_credentials",
]
