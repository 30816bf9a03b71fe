"""Owns the modules of `sample_factory`: each is made when it is imported, and gets a name when that is asked for."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from sample_profiler.compat.serving.names import REFUSED, SERVED

__all__ = ["PACKAGE", "serve"]

PACKAGE = "sample_factory"


class _Modules(MetaPathFinder, Loader):
    """Finds and makes them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Find a module of the package.

        Raises:
            ModuleNotFoundError: It is not served; says why, if that is known.
        """
        package, _, module = fullname.partition(".")
        if package != PACKAGE:
            return None
        names = _names_in(module)
        is_package = any(served.startswith(f"{module}.") for served in SERVED)
        if names is None and not is_package:
            raise ModuleNotFoundError(_describe_missing(module), name=fullname)
        return ModuleSpec(fullname, self, origin=__file__, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make a module whose names are found when they are asked for."""
        module = ModuleType(spec.name, "Served by sample_profiler.compat; see docs/migrating.md.")
        names = _names_in(spec.name.partition(".")[2]) or {}
        vars(module).update(__all__=sorted(names), __getattr__=_Getter(module, names), __dir__=lambda: sorted(names))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: there is nothing in it yet."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return what `python -m` does with a module: its `main`, if it has one."""
        if "main" not in (_names_in(fullname.partition(".")[2]) or {}):
            return None
        program = f"import sys\nfrom {fullname} import main\nsys.exit(main())\n"
        return compile(program, f"<{fullname}>", "exec")


class _Getter:
    """Finds a name of a module by what it is here."""

    def __init__(self, module: ModuleType, names: Mapping[str, str]) -> None:
        self._module = module
        self._names = names

    def __call__(self, name: str) -> Any:
        if name not in self._names:
            message = _describe_missing(f"{self._module.__name__.partition('.')[2]}.{name}")
            # Others only look whether there is such a name: pickle asks all modules for it.
            raise ImportError(message) if _is_imported_by(sys._getframe(1)) else AttributeError(message)
        source, _, own_name = self._names[name].partition(":")
        value = getattr(importlib.import_module(source), own_name or name)
        vars(self._module)[name] = value
        return value


def serve() -> None:
    """Have the package's modules found from now on."""
    if not any(isinstance(finder, _Modules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Modules())


def _names_in(module: str) -> dict[str, str] | None:
    """Return what each name of a module is here; None: no such module is served."""
    if module not in SERVED:
        return None
    return {
        theirs: f"{'sample_profiler.' if source.startswith('compat.') else ''}{source}:{own or theirs}"
        for source, names in SERVED[module].items()
        for theirs, _, own in (name.partition("=") for name in names.split())
    }


def _describe_missing(name: str) -> str:
    """Return why a module, or a name in one, is not served."""
    reason = next((why for begin, why in REFUSED.items() if name == begin or name.startswith(f"{begin}.")), "")
    why = f": {reason}" if reason else "; see docs/migrating.md for what is"
    return f"{PACKAGE}.{name} is not served by sample_profiler.compat{why}"


def _is_imported_by(frame: Any) -> bool:
    """Tell whether what runs in a frame right now is `from … import …`."""
    return bool(dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM")
