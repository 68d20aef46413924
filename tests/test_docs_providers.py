"""The table of provider settings in docs/connect.md: a row for each, with what its schema says."""

from pathlib import Path

import pytest
from tests.support.tables import Table

from runtime.domain.kinds.marks import members
from runtime.domain.kinds.provider import ProviderOAuth2, ProviderOpenID

SETTINGS = Table(Path(__file__).parents[1] / "docs" / "connect.md", "provider-settings", first="Setting")
TEXTS = {
    f"`{protocol}.{name}`": member.description
    for protocol, model in (("oauth2", ProviderOAuth2), ("openid", ProviderOpenID))
    for name, member in members(model).items()
}


@pytest.mark.parametrize("setting", TEXTS)
def test_each_setting_is_described(setting: str) -> None:
    """As editors show it: both come from the docstring of the class."""
    text = TEXTS[setting]

    assert text
    SETTINGS.compare(setting, {"What it is": text})


def test_the_table_has_no_other_rows() -> None:
    assert sorted(SETTINGS.rows()) == sorted(TEXTS)
