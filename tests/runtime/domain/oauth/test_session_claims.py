"""Which claims of a token a session keeps."""

import pytest

from runtime.domain.oauth.session_claims import MAX_BYTES, kept_claims


def test_all_that_is_about_the_user_is_kept() -> None:
    """Whatever its type; not what ties an ID token to one response."""
    about = {"sub": "ada", "groups": ["staff"], "address": {"locality": "London"}, "age": 36, "nick": None}

    assert kept_claims({**about, "nonce": "n", "at_hash": "a", "c_hash": "c", "s_hash": "s"}) == about


@pytest.mark.parametrize("value", ["a\0b", "\ud800", 2**64, {"deep": ["\0"]}, {"\0": 1}, float("nan")])
def test_what_databases_do_not_store_is_left_out(value: object) -> None:
    """One such claim takes nothing else with it."""
    assert kept_claims({"sub": "ada", "odd": value, "even": 2}) == {"sub": "ada", "even": 2}


def nested(levels: int) -> object:
    """Lists in lists."""
    value: object = "inside"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [20, 255, 100_000])
def test_what_is_nested_deeper_than_readers_take_is_left_out(levels: int) -> None:
    """JSON of some hundreds of levels could be stored, and not be read again."""
    about = {"sub": "ada", "deep": nested(19), "even": 2}
    assert kept_claims(about) == about

    assert kept_claims({**about, "deep": nested(levels)}) == {"sub": "ada", "even": 2}


def test_what_comes_first_has_room_before_all_others() -> None:
    """Long claims of a provider leave no session without a subject, and the sum has a bound."""
    long = {f"claim-{number}": "x" * 1000 for number in range(20)}

    kept = kept_claims({**long, "sub": "ada"}, first=("iss", "sub"))

    assert kept["sub"] == "ada"
    assert 7 <= len(kept) - 1 < 9, MAX_BYTES
    assert kept_claims({"huge": "x" * MAX_BYTES, "small": 1}) == {"small": 1}
