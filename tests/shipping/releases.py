"""Trees of the project as of other releases, to be run beside this one with the same environment."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_NAMED = Path(__file__).with_name("previous_release")  # a commit; for as long as there is no tag of a release
_PARTS = ("src", "schemas")
_VERSIONS = Path("src/runtime/storage/sql/migrations/versions")
# What the next release may do to a database that this one serves.
_MIGRATION = '''\
"""What a next release adds, for the test of an upgrade."""

import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
    """A table that refers to others, columns of those that every exchange reads, and an index."""
    op.create_table(
        "of_the_next_release",
        sa.Column("zone_id", sa.String(), nullable=False),
        sa.Column("session_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("zone_id", "session_id", name="of_the_next_release_pkey"),
        sa.ForeignKeyConstraint(
            ["zone_id", "session_id"],
            ["sessions.zone_id", "sessions.id"],
            name="of_the_next_release_session_id_fkey",
            ondelete="CASCADE",
        ),
    )
    for table in ("zones", "sessions", "applications", "resources"):
        op.add_column(table, sa.Column("of_the_next_release", sa.String(), nullable=True))
    op.create_index("of_the_next_release_idx", "sessions", ["of_the_next_release"])
'''


def previous(folder: Path) -> Path:
    """The tree of the previous release: of its tag, or of the commit that is named. Skips without one."""
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
    wanted = tag or _NAMED.read_text().strip()
    if not _git("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}"):
        pytest.skip(f"the previous release, {wanted}, is not in this clone: fetch its whole history")
    folder.mkdir(parents=True)
    archive = subprocess.Popen(["git", "archive", wanted, *_PARTS], cwd=ROOT, stdout=subprocess.PIPE)
    subprocess.run(["tar", "--extract", "--directory", folder], stdin=archive.stdout, check=True)
    assert archive.wait() == 0
    return folder


def following(folder: Path) -> Path:
    """The tree of a release that adds a migration to this one."""
    for name in _PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    before = newest(folder)
    revision = f"{int(before) + 1:04}"
    text = _MIGRATION.format(revision=revision, before=before)
    (folder / _VERSIONS / f"{revision}_of_the_next_release.py").write_text(text)
    return folder


def newest(tree: Path) -> str:
    """The version of the database that a tree migrates to."""
    return max(file.stem[:4] for file in (tree / _VERSIONS).glob("0*.py"))


def _git(*arguments: str) -> str:
    """What git says; nothing where it fails, or is not there."""
    if shutil.which("git") is None:
        return ""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
