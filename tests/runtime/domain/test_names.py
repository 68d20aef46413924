"""When two identifiers are one name."""

import pytest

from runtime.domain.names import canonical, canonical_issuer, is_reserved, key_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("billing", "Billing", id="case"),
        pytest.param("straße", "STRASSE", id="case of more letters"),
        pytest.param("İstanbul", "i\u0307stanbul", id="case with a dot"),
        pytest.param("re\u0301sume\u0301", "résumé", id="composition"),
        pytest.param("\uff42illing", "billing", id="width"),
        pytest.param("of\ufb01ce", "office", id="ligature"),
        pytest.param("ann\u200b@example.com", "ann@example.com", id="zero width space"),
        pytest.param("\ufeffann", "ann", id="byte order mark"),
        pytest.param("an\u00adn", "ann", id="soft hyphen"),
        pytest.param("ann\ufe0f", "ann", id="variation selector"),
        pytest.param(" ann  lee ", "ann lee", id="spaces"),
        pytest.param("ann\u00a0lee", "ann lee", id="no-break space"),
        pytest.param("\u1e9e", "ss", id="capital sharp s"),
    ],
)
def test_names_that_readers_take_for_one_another_are_one(one: str, other: str) -> None:
    """Case, composition, width, and what does not show make no difference."""
    assert one != other
    assert canonical(one) == canonical(other)
    assert key_of(one) == key_of(other)


def test_other_names_stay_apart() -> None:
    """Letters, digits and signs do."""
    names = [
        "ann",
        "anna",
        "ann@example.com",
        "ann@example.org",
        "ann-1",
        "ann_1",
        "änn",
        "https://ann.test/",
    ]
    assert len({key_of(name) for name in names}) == len(names)


def test_comparing_twice_changes_nothing() -> None:
    """What is compared is stable, in plane 0 and the next one."""
    numbers = [*range(0xD800), *range(0xE000, 0x11000), *range(0x1D400, 0x1D800)]
    once = {hex(number): canonical(f"x{chr(number)}y") for number in numbers}
    assert not [number for number, name in once.items() if canonical(name) != name]


def test_names_of_clients_that_register_themselves_are_kept_back() -> None:
    """In whatever form they are written."""
    assert is_reserved("ua:1")
    assert is_reserved("\uff35A:1")
    assert not is_reserved("ua-1")


def test_issuers_that_browsers_take_for_one_are_one() -> None:
    """Paths are told apart, hosts are not."""
    assert canonical_issuer("HTTPS://ID.Example/z/A/") == "https://id.example/z/A"
    assert canonical_issuer("https://id.example/z/a") != canonical_issuer("https://id.example/z/A")
