"""`If-None-Match`: does the caller have the current version already?"""


def seen(if_none_match: str | None, etag: str) -> bool:
    """Tell whether the caller has that version. Spec: RFC 9110 section 13.1.2."""
    given = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
    return etag in given or given == ["*"]
