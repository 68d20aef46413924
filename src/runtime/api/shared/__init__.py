"""Shared by every endpoint: request ids, error bodies, strict bodies, cursors, query parameters."""

from typing import Any

from sanic import Sanic

from runtime.api.shared import errors


def bind(app: Sanic[Any, Any]) -> None:
    """Turn every failure into an answer."""
    errors.bind(app)
