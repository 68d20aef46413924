"""What is shipped, built once from this tree."""

from pathlib import Path

import pytest
from tests.shipping.installing import ROOT
from tools.build import build


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all that `make build` makes."""
    folder = tmp_path_factory.mktemp("artifacts") / "dist"
    build(ROOT, folder)
    return folder


@pytest.fixture(scope="session")
def wheel(artifacts: Path) -> Path:
    """The package."""
    (found,) = artifacts.glob("*.whl")
    return found
