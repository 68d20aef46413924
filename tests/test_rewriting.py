"""What the tests of a run are collected from is rewritten once, before its processes begin."""

from pathlib import Path

import pytest
from tests.support import rewriting


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A test module that nobody has imported."""
    path = tmp_path / "test_it.py"
    path.write_text("def test_it():\n    assert [1] == [2]\n")
    return path


def test_modules_are_those_below_the_arguments(tmp_path: Path, module: Path) -> None:
    """Tests and fixtures; what tests import is compiled as any other module."""
    (tmp_path / "conftest.py").touch()
    (tmp_path / "helper.py").touch()

    assert rewriting.modules_of(["."], tmp_path) == [tmp_path / "conftest.py", module]


def test_an_argument_may_name_a_test(tmp_path: Path, module: Path) -> None:
    """Its module is what is rewritten."""
    assert rewriting.modules_of(["test_it.py::test_it"], tmp_path) == [module]


def test_a_prepared_module_has_its_assertions_rewritten(module: Path, pytestconfig: pytest.Config) -> None:
    """What pytest then reads says what was compared with what."""
    assert rewriting._written(module) is None
    rewriting.prepare([module], pytestconfig, processes=2)

    code = rewriting._written(module)
    namespace: dict[str, object] = {}
    exec(code, namespace)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"\[1\] == \[2\]"):
        namespace["test_it"]()  # type: ignore[operator]


def test_a_module_that_has_changed_is_prepared_anew(module: Path, pytestconfig: pytest.Config) -> None:
    """What was written for the text before is no longer read."""
    rewriting.prepare([module], pytestconfig, processes=1)
    module.write_text("def test_it():\n    assert [3] == [4]\n")
    assert rewriting._written(module) is None

    rewriting.prepare([module], pytestconfig, processes=1)
    assert rewriting._written(module) is not None
