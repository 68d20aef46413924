"""Tables of docs/ that tests fill: a row a case, a column a question, a cell the answer that was seen."""

import fcntl
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WRITE = "WRITE_TABLES"


@dataclass(frozen=True)
class Table:
    """A Markdown table between `<!-- name -->` and `<!-- /name -->`.

    Attributes:
        first: heading of the column with the cases.
    """

    page: Path
    name: str
    first: str

    def rows(self) -> list[str]:
        """The cases, in order."""
        return list(self._read(self.page.read_text("utf-8")))

    def compare(self, case: str, seen: Mapping[str, str]) -> None:
        """Hold what was seen against the case's row; or write it there, when WRITE_TABLES is set."""
        if os.environ.get(WRITE):
            self._write(case, seen)
            return
        assert dict(seen) == self._read(self.page.read_text("utf-8")).get(case)

    def _read(self, text: str) -> dict[str, dict[str, str]]:
        lines = self._part(text)[0].strip().splitlines()
        if len(lines) < 2:
            return {}
        head, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
        return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows[1:]}

    def _write(self, case: str, seen: Mapping[str, str]) -> None:
        with self.page.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            text = file.read()
            rows = {**self._read(text), case: dict(seen)}
            columns = list(seen)
            lines = [[self.first, *columns], ["---"] * (len(columns) + 1)]
            lines += [[name, *(row.get(each, "") for each in columns)] for name, row in rows.items()]
            part = "\n".join("| " + " | ".join(line) + " |" for line in lines)
            start, end = self._part(text)[1]
            file.seek(0)
            file.truncate()
            file.write(f"{text[:start]}{part}\n{text[end:]}")

    def _part(self, text: str) -> tuple[str, tuple[int, int]]:
        found = re.search(rf"<!-- {self.name} -->\n(.*?)<!-- /{self.name} -->", text, re.DOTALL)
        assert found, f"{self.page.name} has no part `{self.name}`"
        return found[1], found.span(1)


def write_part(page: Path, name: str, text: str) -> None:
    """Write what stands between `<!-- name -->` and `<!-- /name -->` on a page."""
    with page.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = file.read()
        found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", before, re.DOTALL)
        assert found, f"{page.name} has no part `{name}`"
        start, end = found.span(1)
        file.seek(0)
        file.truncate()
        file.write(f"{before[:start]}{text}{before[end:]}")
