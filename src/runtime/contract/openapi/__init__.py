"""The OpenAPI document, generated from the routes and their classes."""

from runtime.contract.openapi.document import openapi, security_of

__all__ = ["openapi", "security_of"]
