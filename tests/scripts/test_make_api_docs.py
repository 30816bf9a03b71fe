"""Tests of the page of public names: it has all of them, is up to date, and shows docstrings as they are meant."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sample_profiler
from sample_profiler import errors, profiling, timers

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''
"""A module."""
from __future__ import annotations
from collections.abc import Iterator
from typing import Protocol, overload

LIMIT, OTHER = 3, 4
"""How much is allowed: ``3``."""

class Base:
    def inherited(self) -> None:
        """Come from above."""

    def _hidden(self) -> None:
        """Not be shown."""

class Thing(Base, Protocol):
    """A thing.

    It is used so, see :class:`Base`::

        with Thing(3) as thing:
            thing.use()

    Args:
        size: in cells, ``1`` and more,
            or many.
        **options: others.

    Attributes:
        size: as given.
        height: of it.

    Raises:
        ValueError: the size is 0; with a cure: another one.
    """

    height: dict[str, int]

    def __init__(self, size: int, /, name: str = "a thing", *others: float, big: bool = False, **options: int) -> None:
        self.size = size

    @property
    def width(self) -> int | None:
        """How wide it is."""

    @classmethod
    def made(cls, first=1) -> Thing:
        """Make one."""

    @staticmethod
    def sum(values: list[int]) -> int:
        """Add up.

        Returns:
            The sum: a number.
        """

    async def wait(self) -> None:
        """Wait."""

    def __getitem__(self, index: int) -> int:
        """Return a cell."""

@overload
def use(thing: Thing) -> int: ...
@overload
def use(thing: None) -> None: ...
def use(thing: Thing | None) -> int | None:
    """Use a thing
    for long.

    Say more.
    """

@contextlib.contextmanager
def used(
    thing: Thing,
    a_parameter_of_a_long_name: dict[str, tuple[int, ...]] | None = None,
    *,
    another_parameter_of_a_long_name: str = 'x',
) -> Iterator[Thing]:
    """Use it within."""

class Plain(Exception):
    """An error that says all in one sentence."""
'''


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("make_api_docs", ROOT / "scripts" / "make_api_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_api_docs", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def show(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Show a name of a made-up package."""
    definitions = importlib.import_module("api_docs.definitions")
    package = tmp_path / "sample_profiler"
    package.mkdir()
    (package / "__init__.py").write_text("if TYPE_CHECKING:\n    from sample_profiler.things import use as use_it\n")
    (package / "things.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.setattr(definitions, "ROOT", tmp_path)
    for read in (definitions.read_source, definitions.read_module):
        read.cache_clear()
    yield lambda name: script.format_definition(name, script.find_definition(name))
    for read in (definitions.read_source, definitions.read_module):
        read.cache_clear()


def test_the_page_of_public_names_is_up_to_date(script: ModuleType):
    assert script.PATH.read_text(encoding="utf-8") == script.make_page(), "run make docs"


def test_the_page_has_every_public_name_and_says_what_it_is_for(script: ModuleType):
    told = dict(re.findall(r"^\| \[?`(\w+)`(?:\]\(#\w+\))? \| (.+) \|$", script.make_page(), re.MULTILINE))
    public = {*sample_profiler.__all__, *profiling.__all__, *timers.__all__} - {"__version__"}
    public |= {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert public - told.keys() == set()
    assert [name for name, summary in told.items() if not summary.strip()] == []


def test_links_of_the_page_lead_to_its_entries(script: ModuleType):
    page = script.make_page()
    entries = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert len(set(entries)) == len(entries)
    assert re.findall(r"\]\(#(\w+)\)", page) == [entry.lower() for entry in entries]


def test_a_class_has_signature_lists_and_members(show):
    assert (
        show("sample_profiler.things.Thing")
        == """\
### `Thing`

```text
class sample_profiler.things.Thing(
    size: int,
    /,
    name: str = "a thing",
    *others: float,
    big: bool = False,
    **options: int,
)
```

A thing.

It is used so, see `Base`:

```text
with Thing(3) as thing:
    thing.use()
```

**Args**

- `size`: in cells, `1` and more,
  or many.
- `**options`: others.

**Attributes**

- `size`: as given.
- `height` (`dict[str, int]`): of it.

**Raises**

- `ValueError`: the size is 0; with a cure: another one.

#### `width: int | None`

How wide it is.

#### `classmethod made(first = 1) -> Thing`

Make one.

#### `sum(values: list[int]) -> int`

Add up.

**Returns**

The sum: a number.

#### `async wait() -> None`

Wait.

#### `__getitem__(index: int) -> int`

Return a cell.

#### `inherited() -> None`

Come from above."""
    )


def test_of_overloads_the_function_itself_is_shown_by_the_name_that_it_is_imported_by(show):
    assert show("sample_profiler.use_it") == (
        "### `use_it`\n\n```text\nsample_profiler.use_it(thing: Thing | None) -> int | None\n```\n\n"
        "Use a thing\nfor long.\n\nSay more."
    )


def test_long_signatures_have_a_line_for_each_parameter_and_context_managers_say_what_they_are(show):
    assert (
        show("sample_profiler.things.used")
        == """\
### `used`

```text
sample_profiler.things.used(
    thing: Thing,
    a_parameter_of_a_long_name: dict[str, tuple[int, ...]] | None = None,
    *,
    another_parameter_of_a_long_name: str = 'x',
) -> AbstractContextManager[Thing]
```

Use it within."""
    )


def test_what_a_sentence_says_whole_has_no_entry(show, script: ModuleType):
    assert show("sample_profiler.things.Plain") == ""
    assert show("sample_profiler.things.OTHER") == ""
    assert script.format_summary(script.find_definition("sample_profiler.things.LIMIT")) == "How much is allowed: `3`."
    assert script.format_summary(script.find_definition("sample_profiler.use_it>used")) == "Use it within."


@pytest.mark.parametrize("name", ["sample_profiler.things.nothing", "sample_profiler.use_it>nothing"])
def test_a_name_that_is_not_there_is_an_error_that_says_where(show, name: str):
    with pytest.raises(LookupError, match=r"sample_profiler\.things neither defines nor imports nothing"):
        show(name)


def test_the_script_writes_and_compares(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script.PATH = tmp_path / "docs" / "api.md"
    assert script.main(["--check"]) == 1 and "make docs" in capsys.readouterr().err
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    script.PATH.write_text("old")
    assert script.main(["--check"]) == 1
    assert script.main(["--chek"]) == 2
