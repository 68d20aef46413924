"""The class of a token, by its `typ` and its claims."""

from contextlib import nullcontext

import pytest

from runtime.adapters.keys.jose import CompactJws, InvalidJwt, check_class


@pytest.mark.threat("13l")
@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        ({}, True),
        *[
            ({"typ": typ}, True)
            for typ in ("JWT", "jwt", "application/jwt", "JOSE", "x+jwt", "Application/X+JWT")
        ],
        *[
            ({"typ": f"{use}+jwt"}, False)
            for use in ("at", "logout", "dpop", "secevent", "oauth-id-jag", "xx")
        ],
        *[
            ({"typ": typ}, False)
            for typ in ("", " JWT", "JWT2", "application/application/jwt", None, 1, ["JWT"])
        ],
    ],
)
def test_only_some_classes_are_accepted(header, is_accepted):
    """One that is named must be known, whatever its spelling; none need be named."""
    jws = CompactJws({"alg": "ES256", **header}, {}, b"", b"")
    with nullcontext() if is_accepted else pytest.raises(InvalidJwt):
        check_class(jws, ("JWT", "JOSE", "x+jwt"))
