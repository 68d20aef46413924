"""Conversion of rows: without validating them again, entities are what they would be with it."""

from datetime import UTC, datetime
from typing import get_args

import pytest
from pydantic import AfterValidator, BeforeValidator, PlainValidator, StringConstraints, WrapValidator
from tests.support import entities as make

from runtime.domain.kinds import ALL, BY_NAME
from runtime.domain.kinds.marks import members
from runtime.storage.sql.conversion import converter
from runtime.storage.sql.tables import TABLES

_OWNER = make.organization()
_ZONE = make.zone(_OWNER)
_APPLICATION = make.application(
    _ZONE,
    traits=["gateway", "ai-agent"],
    metadata={"docs_url": "https://docs.example"},
    protocols={"oauth2": {"redirect_uris": ["https://a.example/callback"]}},
)
_USER = make.user(_ZONE)
_ROLE = make.role(_ZONE)
_POLICY = make.policy(_ZONE)
_ACCOUNT = make.service_account(_OWNER)
MADE = [
    _OWNER,
    _ZONE,
    _APPLICATION,
    _USER,
    _ROLE,
    _POLICY,
    _ACCOUNT,
    make.application(_ZONE, updated_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    make.password_credential(_APPLICATION),
    make.public_credential(_APPLICATION),
    make.provider(_ZONE, client_id="c", client_secret=b"\x00sealed"),
    make.resource(_ZONE, scopes=["calendar.use"]),
    make.group(_ZONE),
    make.role_assignment(_ROLE, _USER),
    make.policy_version(_POLICY, cedar_json={"b": [1, None]}),
    make.organization_user(_OWNER),
    make.service_account_credential(_ACCOUNT, zones=[_ZONE.id]),
]
# What checks a text or an instant, and gives back what it was given: an instant of storage is one in UTC.
CHECKS = {"_absolute", "_utc"}


def kind_of(entity):
    """The kind of an entity."""
    return next(kind for kind in BY_NAME.values() if isinstance(entity, kind.entity))


def notes_of(annotation):
    """What an annotation is marked with, at any depth."""
    return [
        *getattr(annotation, "__metadata__", ()),
        *(note for inner in get_args(annotation) for note in notes_of(inner)),
    ]


@pytest.mark.parametrize("entity", MADE, ids=lambda entity: type(entity).__name__)
def test_an_entity_of_a_row_is_the_validated_one(entity):
    """Its members, their types and their order, and which of them were given."""
    kind = kind_of(entity)
    row = converter(kind).row(entity)

    read, validated = converter(kind).entity(tuple(row.values())), kind.read(row)

    assert type(read) is type(validated)
    assert [(name, type(value), value) for name, value in read.__dict__.items()] == [
        (name, type(value), value) for name, value in validated.__dict__.items()
    ]
    assert read.model_fields_set == validated.model_fields_set
    assert read == validated == entity


def test_a_copy_of_an_entity_of_a_row_leaves_others_alone():
    """Entities of one class share what is the same for all of them."""
    convert = converter(kind_of(_APPLICATION))
    first, second = (convert.entity(tuple(convert.row(_APPLICATION).values())) for _ in range(2))

    changed = first.model_copy(update={"dependencies_count": 2})

    assert (changed.dependencies_count, first.dependencies_count, second.dependencies_count) == (2, 0, 0)
    assert first.model_fields_set == second.model_fields_set != changed.model_fields_set


@pytest.mark.parametrize(
    ("column", "value"),
    [("consent", "never"), ("consent", None), ("metadata", {"else": 1}), ("protocols", {"oauth2": 1})],
)
def test_what_no_entity_can_have_is_refused(column, value):
    """A choice that there is not, and a part that is not valid."""
    convert = converter(kind_of(_APPLICATION))
    row = convert.row(_APPLICATION) | {column: value}

    with pytest.raises((KeyError, ValueError)):
        convert.entity(tuple(row.values()))


def test_nothing_that_checks_a_stored_text_changes_it():
    """So a row need not be checked again to be what was written."""
    notes = [
        note
        for kind in ALL
        for model in kind.classes
        for name, member in members(model).items()
        if name in TABLES[kind.name].c and member.value_type in (str, int, bool, datetime, bytes)
        for note in notes_of(member.annotation)
    ]

    changes = [note for note in notes if isinstance(note, BeforeValidator | PlainValidator | WrapValidator)]
    changes += [
        note
        for note in notes
        if isinstance(note, StringConstraints) and (note.strip_whitespace or note.to_lower or note.to_upper)
    ]

    assert {note.func.__name__ for note in notes if isinstance(note, AfterValidator)} == CHECKS
    assert changes == []
