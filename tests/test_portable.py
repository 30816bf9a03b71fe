"""What travels to another process by value is there as it was here."""

from __future__ import annotations

import inspect

from sample_profiler.errors import EnvError
from sample_profiler.portable import pack_function, unpack_function

SOURCE = """\
class Inner:
    def forward(self, x):
        return [y + 1 for y in x]


def make(bias=0):
    def made(x):
        return Inner().forward([each + bias for each in x])

    return made
"""


def test_code_of_the_main_script_keeps_its_file_where_its_source_is_found(tmp_path):
    path = tmp_path / "own_model.py"
    path.write_text(SOURCE)
    script = {"__name__": "__main__"}
    exec(compile(SOURCE, str(path), "exec"), script)
    make = unpack_function(pack_function(script["make"], "things", EnvError), "things", EnvError)
    assert make is not script["make"]
    made, inner = make(1), make.__globals__["Inner"]
    assert made([1, 2]) == [3, 4]
    for function in (make, made, inner.forward):
        assert function.__code__.co_filename == str(path)
    assert inspect.getsource(inner.forward).strip().startswith("def forward(self, x):")
