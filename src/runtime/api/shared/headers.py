"""A request header as text: repeated lines joined by commas, so that two credentials never pass as one."""

from sanic.request import Request


def header_of(request: Request, name: str) -> str | None:
    """Every line of a header as one text, as HTTP has it; None without one. Two credentials are then none.

    Spec: RFC 9110 section 5.3.
    """
    lines = request.headers.getall(name, None)
    return ", ".join(lines) if lines else None
