"""Environment variables that manifests may read: only those allowed outside the repository."""

import pytest

from reconciler.apply import AllowedNames, PatternWrong
from reconciler.apply.allowed_env import is_own


@pytest.mark.parametrize("pattern", ["OKTA", "okta_secret", "_X", "A1", "OKTA_*", "O*"])
def test_a_name_or_a_prefix_can_be_allowed(pattern: str) -> None:
    """As shells spell names."""
    assert AllowedNames.of([pattern]).patterns == {pattern}


@pytest.mark.parametrize(
    "pattern", ["", "*", "1A", "A-B", "A*B", "A**", "OKTA ", "OKTA\n", "Ä", "$OKTA", "A=B"]
)
def test_anything_else_is_refused(pattern: str) -> None:
    """Above all what would allow everything."""
    with pytest.raises(PatternWrong):
        AllowedNames.of(["FINE", pattern])


@pytest.mark.parametrize("pattern", ["ZONECTL_API_KEY", "zonectl_api_key", "ZONECTL_*", "ZONECTL_A*"])
def test_zonectls_own_variables_are_never_allowed(pattern: str) -> None:
    """They hold the credential of whoever applies."""
    with pytest.raises(PatternWrong, match="zonectl"):
        AllowedNames.of([pattern])


@pytest.mark.parametrize("name", ["ZONECTL_API_KEY", "Zonectl_Api_Key", "ZONECTL_X"])
@pytest.mark.parametrize("patterns", [[], ["Z*"], ["z*"]])
def test_no_prefix_reaches_them_either(name: str, patterns: list[str]) -> None:
    """`Z*` allows much, and not that."""
    assert "zonectl's own" in AllowedNames.of(patterns).problem_of(name)


@pytest.mark.parametrize(
    ("patterns", "name", "allowed"),
    [
        (["OKTA"], "OKTA", True),
        (["OKTA"], "OKTA_SECRET", False),
        (["OKTA"], "okta", False),
        (["OKTA_*"], "OKTA_SECRET", True),
        (["OKTA_*"], "OKTA_", True),
        (["OKTA_*"], "OKTA", False),
        (["A", "B_*"], "B_1", True),
        ([], "PATH", False),
    ],
)
def test_a_variable_is_read_where_a_pattern_allows_it(patterns: list[str], name: str, allowed: bool) -> None:
    """Whole names, and prefixes that end in a star; case counts."""
    assert (AllowedNames.of(patterns).problem_of(name) == "") is allowed


def test_without_a_list_nothing_is_allowed() -> None:
    """Whoever may write manifests may not read the environment."""
    assert AllowedNames().problem_of("PATH")


def test_the_message_says_how_to_allow_it() -> None:
    """On the command line, and in the file where there is one."""
    assert "--allow-env OKTA" in AllowedNames().problem_of("OKTA")
    assert "allow_env" not in AllowedNames().problem_of("OKTA")
    assert "`allow_env` in `/home/ann/zonectl.yaml`" in AllowedNames.of(
        [], "/home/ann/zonectl.yaml"
    ).problem_of("OKTA")


@pytest.mark.parametrize(
    ("name", "own"), [("ZONECTL_X", True), ("zonectl_x", True), ("ZONECTL", False), ("X_ZONECTL_", False)]
)
def test_a_variable_is_zonectls_by_its_prefix(name: str, own: bool) -> None:
    """In whatever case: some systems do not tell them apart."""
    assert is_own(name) is own
