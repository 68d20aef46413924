"""docs/messages.txt lists every text that a person may read, as the source has it."""

import pytest
from tests.support.messages import CATALOGUE, catalogue, texts_of


def test_the_catalogue_is_written_from_the_source() -> None:
    """`make documents` writes it again after a text has changed."""
    assert CATALOGUE.read_text("utf-8") == catalogue()


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('raise NotFound(f"there is no zone `{zone_id}`")', ["there is no zone `{zone_id}`"]),
        ("f\"the key {name or 'none'} is over\"", ["the key {...} is over"]),
        ('say("one text "\n    "in two pieces")', ["one text in two pieces"]),
        ('def f():\n    """A docstring is for developers."""', []),
        ('@click.command()\ndef f():\n    """Help of a command."""', ["Help of a command."]),
        ('text("SELECT one FROM two")', []),
        ('query = "SELECT one FROM two"', []),
        ('script = "local count = redis.call(KEYS[1]) return count"', []),
        ('{"client_id": value}', []),
    ],
)
def test_what_is_listed_of_a_module(source: str, texts: list[str]) -> None:
    """Texts of several words, values as expressions; no docstrings, SQL, scripts or names of members."""
    assert list(texts_of(source)) == texts


def test_docstrings_of_classes_that_schemas_publish_are_listed() -> None:
    """OpenAPI shows the first paragraph as the description of the class; further ones are for developers."""
    source = (
        'class Zone:\n    """An isolated server.\n\n    More."""\n\n\nclass Row:\n    """A row of a table."""'
    )

    assert list(texts_of(source, {"An isolated server."})) == ["An isolated server."]
