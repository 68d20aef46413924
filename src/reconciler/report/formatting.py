"""Renders the outcome of `zonectl fmt` as text and as JSON."""

from collections.abc import Iterator

from reconciler.kinds import Kinds
from reconciler.manifests.format_files import FormattedFile, Formatting, masked_diff
from reconciler.manifests.source_files import seen_from_here
from reconciler.output_documents import FORMATTING, FormattedFileDocument, FormattingDocument
from reconciler.terminal import Line, Styled

from .diagnostics import diagnostic_block
from .value_diff import counted

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def formatting_lines(formatting: Formatting, *, written: bool, diff: Kinds | None) -> Iterator[Line]:
    """Each file that changes, with *diff* its changes; then problems, and the totals."""
    root = formatting.source.root
    for file in formatting.changed:
        yield f"{'formatted' if written else 'not formatted'}: {seen_from_here(root / file.path)}"
        if diff is not None:
            yield from (Styled(line, _COLORS.get(line[:1])) for line in masked_diff(file, diff))
    for each in formatting.diagnostics:
        yield from diagnostic_block(each, seen_from_here(root / each.path))
    left = len({each.path for each in formatting.diagnostics})
    changed, files = len(formatting.changed), len(formatting.source.files)
    verb = "formatted" if written else "to format"
    yield f"{counted(files, 'file')}: {changed} {verb}, {files - changed - left} unchanged" + (
        f", {left} skipped because of the problems above" if left else ""
    )


def formatting_json(formatting: Formatting, *, written: bool, diff: Kinds | None) -> FormattingDocument:
    """The same as a JSON object."""
    return {
        "format": FORMATTING,
        "files": len(formatting.source.files),
        "written": written,
        "changed": [_file_json(file, diff) for file in formatting.changed],
        "diagnostics": [each.as_json() for each in formatting.diagnostics],
    }


def _file_json(file: FormattedFile, diff: Kinds | None) -> FormattedFileDocument:
    return {"path": file.path} if diff is None else {"path": file.path, "diff": masked_diff(file, diff)}
