"""The names of rules of policies, as people read them."""

_MOST_DIGITS = 4  # no text has so many rules that a place has more


def place_of(rule: str) -> int | None:
    """The place of a rule without an `@id` among the rules of its text, counted from 1; None for an `@id`."""
    is_place = rule.isascii() and rule.isdecimal() and len(rule) <= _MOST_DIGITS
    return int(rule) + 1 if is_place else None


def rule_text(name: str) -> str:
    """A rule by its `@id`, or by its place among the rules of the text, counted from 1 for people."""
    place = place_of(name)
    return f"rule {place}" if place is not None else f"rule `{name}`"
