"""Train until the return is good enough with a script of CleanRL, in its environment.

`python cleanrl_return.py OUTPUT THRESHOLD SECONDS SEED SCRIPT FLAG…`: the script, unchanged, prints a line for each
episode, and is ended when they are good enough.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from returns import Returns  # beside this file, which is run as a program

_EPISODE = re.compile(r"global_step=(\d+), episodic_return=\[?\s*(-?[\d.]+(?:e[-+]?\d+)?)")


def main() -> int:
    """Start the script and read what it prints."""
    output, threshold, seconds, seed, script, *flags = sys.argv[1:]
    path = Path(script).resolve()
    search = os.pathsep.join(filter(None, (str(path.parents[1]), os.environ.get("PYTHONPATH"))))  # for cleanrl_utils
    command = [sys.executable, "-u", str(path), f"--seed={seed}", *flags]
    with Returns(output, float(threshold), float(seconds)) as returns, tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": search}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if found := _EPISODE.match(line):
                    returns.end_episode(float(found[2]), int(found[1]))
                if returns.is_over:
                    process.kill()
                    return 0
        return process.returncode


if __name__ == "__main__":
    sys.exit(main())
