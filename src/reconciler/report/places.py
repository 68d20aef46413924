"""Places of manifests for people: files as seen from the current directory, as editors open them."""

import re
from collections.abc import Callable, Set
from pathlib import Path

from reconciler.manifests import Configuration
from reconciler.manifests.source_files import seen_from_here

Places = Callable[[str], str]
"""Turns a text with places of manifests (`file:line`, relative to the root) into the text that is shown."""

# A place is a whole text, or begins one, or is in parentheses or behind `at` within one.
_PLACE = re.compile(r"(?:^|(?<=\()|(?<= at ))(?P<file>[^()]+?)(?P<line>:\d+(?::\d+)?)(?=$|: |\)|[;,]? )")


def as_recorded(text: str) -> str:
    """Places as plans and ownership records have them: relative to the root."""
    return text


def places_from_here(configuration: Configuration) -> Places:
    """Places with files relative to the current directory; absolute where they are not below it."""
    source = configuration.source
    files = {source.relative(file) for file in source.files}
    texts = {file for manifest in configuration.manifests for file in manifest.files.values()}
    known = files | texts
    return lambda text: _seen(text, source.root, known)


def _seen(text: str, root: Path, files: Set[str]) -> str:
    def shown(found: re.Match[str]) -> str:
        file = found["file"]
        lead, at, behind = file.rpartition(" at ") if file not in files else ("", "", file)
        return f"{lead}{at}{seen_from_here(root / behind)}{found['line']}" if behind in files else found[0]

    return _PLACE.sub(shown, text)
