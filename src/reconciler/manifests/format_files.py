"""Formats the files of a configuration in place: the work of `zonectl fmt`."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff

from reconciler.files import FileRefused
from reconciler.kinds import Kinds

from .configuration import nothing_in, read_manifest_file
from .diagnostics import Diagnostic, diagnose
from .document_diagnostics import RedactedDocument
from .encoding import decode
from .formatting import FormattingImpossible, format_manifests
from .masking import mask_comment, mask_spans, mask_tokens
from .schema_checks import Validators
from .source_files import MAX_FILE_BYTES, SourceError, SourceFiles
from .spans import Span, split_lines
from .yaml_reader import read_documents


@dataclass(frozen=True)
class FormattedFile:
    """A file that is not in canonical form. `path` is relative to the configuration's root."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Formatting:
    """The result of formatting. Files with a diagnostic are unchanged."""

    source: SourceFiles
    changed: tuple[FormattedFile, ...]
    diagnostics: tuple[Diagnostic, ...]


def format_files(source: SourceFiles, kinds: Kinds, *, write: bool) -> Formatting:
    """Format every manifest file of a source, in place with *write*; without, only list which would change.

    A file that is not valid by itself is left unchanged; references between files are not resolved.

    Raises:
        SourceError: there is no manifest file.
    """
    if not source.files:
        raise SourceError(nothing_in(source))
    validators = Validators(kinds)
    changed: list[FormattedFile] = []
    diagnostics: list[Diagnostic] = []
    for file in source.files:
        name, found = source.relative(file), list[Diagnostic]()
        read_manifest_file(source, file, name, validators, None, found)
        diagnostics += found
        if found:
            continue
        try:
            formatted = _format_file(source, file, name, kinds, write=write)
        except FileRefused as refused:
            diagnostics.append(diagnose(name, "", None, refused.code, refused.reason))
        except FormattingImpossible as error:
            diagnostics.append(
                diagnose(name, "", None, "not-formatted", f"the file is left as it is: {error}")
            )
        else:
            changed += [formatted] if formatted else []
    return Formatting(source, tuple(changed), tuple(sorted(diagnostics)))


def _format_file(
    source: SourceFiles, file: str, name: str, kinds: Kinds, *, write: bool
) -> FormattedFile | None:
    """A valid file's canonical form; None when it has that already."""
    content = source.opener.read(file, at_most=MAX_FILE_BYTES, again=True)
    before = decode(content)
    after = format_manifests(before, kinds)
    if after.encode() == content:
        return None
    if write:
        source.opener.replace(file, after.encode(), expected=content)
    return FormattedFile(name, before, after)


def masked_diff(file: FormattedFile, kinds: Kinds) -> list[str]:
    """The change of a file as a unified diff without secrets."""
    before, after = _masked_lines(file.before, kinds), _masked_lines(file.after, kinds)
    found = list(unified_diff(before, after, f"a/{file.path}", f"b/{file.path}", lineterm=""))
    return found or [f"{file.path}: only line ends or the byte order mark change"]


def _masked_lines(text: str, kinds: Kinds) -> Sequence[str]:
    """The lines of valid manifests, with all that may be a secret written out as asterisks."""
    shown = [
        RedactedDocument(each, kinds.by_name[each.value["kind"]])
        for each in read_documents(text, places=True)
    ]
    hidden: list[Span] = [span for each in shown for span in each.hidden]
    comments = {line: column for each in shown for line, column in each.comments_begin().items()}
    lines = list(split_lines(text))
    if lines and not lines[-1]:
        lines.pop()
    return [
        mask_tokens(mask_comment(mask_spans(line, number, hidden), comments.get(number, 0)))
        for number, line in enumerate(lines)
    ]
