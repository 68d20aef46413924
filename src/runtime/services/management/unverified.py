"""Reading a token before its signature is checked, for the one question which keys to check it with."""

from runtime.adapters.keys.jose import MalformedToken, parse


def claim(token: str, name: str) -> str | None:
    """A string claim of a token that proves nothing yet; None when it has none, or is no token at all."""
    try:
        value = parse(token).payload.get(name)
    except MalformedToken:
        return None
    return value if isinstance(value, str) else None
