"""The `DPoP` header of a request. Spec: RFC 9449 section 4.3, item 1."""

from sanic.request import Request

from runtime.domain.errors import InvalidDpopProof


def proof_of(request: Request) -> str | None:
    """The proof that a request carries; None when there is none. Raises InvalidDpopProof for two."""
    if request.headers.get("dpop") is None:
        return None
    sent = request.headers.getall("dpop")
    if len(sent) > 1:
        raise InvalidDpopProof("one DPoP proof in a request")
    return str(sent[0])
