"""Reading a token before its signature is checked, for the one question where to find what checks it."""

from runtime.adapters.keys.jose import MalformedToken, parse, same_type


def claim(token: str, name: str) -> str | None:
    """A string claim of a token that proves nothing yet; None when it has none, or is no token at all."""
    try:
        value = parse(token).payload.get(name)
    except MalformedToken:
        return None
    return value if isinstance(value, str) else None


def is_of_type(token: str, typ: str) -> bool:
    """Tell whether a token says that it is of that class."""
    try:
        return same_type(parse(token).header.get("typ"), typ)
    except MalformedToken:
        return False


def key_id(token: str) -> str | None:
    """The id of the key that a token says it was signed with."""
    try:
        value = parse(token).header.get("kid")
    except MalformedToken:
        return None
    return value if isinstance(value, str) else None
