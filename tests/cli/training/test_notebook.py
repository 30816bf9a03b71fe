"""Training in a notebook: a panel under the cell, an interrupt that ends the run in order, and another run after it."""

from __future__ import annotations

import asyncio
import re
import threading
import time

import pytest

from sample_profiler.run_folder import RunFolder
from tests.docs.pages import ROOT

pytestmark = [pytest.mark.whole_run, pytest.mark.timeout(300)]

TRAIN = """\
import sys, warnings
sys.path.insert(0, {root!r})
from sample_profiler import Run, train
from sample_profiler.envs.gymnasium_ids import register_gym_envs
register_gym_envs()
FLAGS = ["--env=CartPole-v1", "--experiment=run", "--train_dir={folder}", "--num_workers=1", "--use_rnn=False",
    "--num_envs_per_worker=4", "--rollout=16", "--batch_size=64", "--encoder_mlp_layers", "8"]
print("status", train([*FLAGS, "--train_for_env_steps=4000"]))
"""
INTERRUPTED = 'print("status", train([*FLAGS, "--train_for_env_steps=100000000"]))'
AGAIN = """\
print("status", train([*FLAGS, "--train_for_env_steps=8000", "--restart_behavior=overwrite"]))
Run("{folder}/run")
"""


@pytest.fixture
def notebook(tmp_path):
    pytest.importorskip("ipykernel")
    nbformat = pytest.importorskip("nbformat")
    cells = (TRAIN, INTERRUPTED, AGAIN)
    sources = [cell.replace("{root!r}", repr(str(ROOT))).replace("{folder}", str(tmp_path)) for cell in cells]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def texts(cell):
    return "".join(output.get("text", "") for output in cell.outputs if output.output_type == "stream")


def htmls(cell):
    shown = (output.get("data", {}).get("text/html", "") for output in cell.outputs)
    return ["".join(html) for html in shown if html]


@pytest.mark.filterwarnings("ignore")  # of the client about itself
def test_a_notebook_trains_is_interrupted_and_trains_again(notebook, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    client = nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3")
    with client.setup_kernel(cwd=str(tmp_path)):
        first = client.execute_cell(notebook.cells[0], 0)
        assert "status 0" in texts(first), first.outputs
        (panel,) = [html for html in htmls(first) if "<progress" in html]
        assert "<svg" in panel and re.search(r"reward \d", panel) and "as many frames as asked" in panel

        def interrupt():
            while not RunFolder(tmp_path / "run").control_socket.exists():
                time.sleep(0.1)
            asyncio.run(client.km.interrupt_kernel())  # a signal to its group, as of the button

        thread = threading.Thread(target=interrupt)
        thread.start()
        second = client.execute_cell(notebook.cells[1], 1)
        thread.join()
        assert "status 130" in texts(second), second.outputs
        assert "interrupted by SIGINT" in "".join(htmls(second))

        third = client.execute_cell(notebook.cells[2], 2)
        assert "status 0" in texts(third), third.outputs
        assert any("iframe" in html for html in htmls(third))
