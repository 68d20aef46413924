"""Shared by every endpoint: request ids, error bodies, strict bodies, cursors, query parameters."""

from typing import Any

from sanic import Sanic

from runtime.api.shared import errors, request_ids


def bind(app: Sanic[Any, Any]) -> None:
    """Give every request an id, and turn every failure into an answer."""
    request_ids.bind(app)
    errors.bind(app)
