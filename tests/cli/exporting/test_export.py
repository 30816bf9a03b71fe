"""`sample-profiler export`: a run's policy as a file, as a folder with a card, and in a hub."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sample_profiler.cli.main import main
from sample_profiler.run_folder import RunFolder
from tests.docs.pages import ROOT

pytestmark = pytest.mark.whole_run

CARTPOLE = (
    *("--env=CartPole-v1", "--experiment=run", "--serial_mode=True", "--async_rl=False", "--num_workers=1"),
    *("--rollout=16", "--batch_size=64", "--encoder_mlp_layers", "8", "--train_for_env_steps=2000"),
)


@pytest.fixture(autouse=True)
def packages():
    for name in ("onnx", "onnxruntime", "onnxscript", "safetensors"):
        pytest.importorskip(name)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    command = [sys.executable, "-m", "sf_examples.gym.train_gym", *CARTPOLE, f"--train_dir={folder}"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=100)
    RunFolder(folder / "run").replay.with_suffix(".gif").write_bytes(b"GIF89a")
    return folder / "run"


def test_a_runs_policy_becomes_a_file_in_its_folder(run_dir, capsys):
    assert main(["export", str(run_dir)]) == 0
    told = capsys.readouterr().out
    path = run_dir / "policy_p0.onnx"
    assert told.startswith(f"{path} (") and "apart at most" in told and path.is_file()
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    (width,) = (each.shape[1] for each in session.get_inputs() if each.name == "states")
    inputs = {"obs": np.zeros((1, 4), np.float32), "states": np.zeros((1, width), np.float32)}
    actions = session.run(["actions"], inputs)[0]
    assert actions.shape == (1, 1) and actions[0, 0] in (0, 1)


def test_a_folder_has_all_that_others_have_to_know(run_dir, tmp_path, capsys):
    folder = tmp_path / "policy"
    assert main(["export", str(run_dir), "--folder", str(folder), "--format", "safetensors"]) == 0
    assert {path.name for path in folder.iterdir()} == {
        *("README.md", "config.json", "model.safetensors", "policy.json", "replay.gif")
    }
    card = (folder / "README.md").read_text()
    head, _, text = card.removeprefix("---\n").partition("---\n")
    described = {line.partition(": ")[0]: json.loads(line.partition(": ")[2]) for line in head.splitlines()}
    assert described["library_name"] == "sample_profiler" and "CartPole-v1" in described["tags"]
    assert described["model-index"][0]["results"][0]["metrics"][0]["value"] > 0
    assert "model.safetensors" in text and "--env=CartPole-v1" in text and "![It plays](replay.gif)" in text
    described = json.loads((folder / "policy.json").read_text(), parse_constant=pytest.fail)  # no Infinity
    assert described["inputs"] == ["obs", "states"]
    assert main(["export", str(run_dir), "--folder", str(folder)]) == 2
    assert "is there already, and not empty" in capsys.readouterr().err


def test_what_cannot_be_exported_is_told(run_dir, tmp_path, capsys):
    assert main(["export", str(tmp_path)]) == 2
    assert main(["export", str(run_dir), "--policy_index", "3"]) == 2
    assert main(["export", str(run_dir), "--output", str(tmp_path / "a.onnx"), "--folder", str(tmp_path / "b")]) == 2
    assert main(["export", str(run_dir), "--output", str(tmp_path / "missing" / "a.onnx")]) == 2
    assert capsys.readouterr().err.count("sample-profiler export: ") == 4
    assert list(tmp_path.iterdir()) == []


class FakeHub(BaseHTTPRequestHandler):
    """As much of a hub as an upload takes."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        hub = self.server
        hub.asked.append((self.path, self.headers["Authorization"]))
        if hub.refusal:
            self._answer({"error": hub.refusal}, 403)
        elif self.path == "/api/repos/create":
            self._answer({"url": f"{hub.url}/me/doom", "name": "me/doom"})
        elif self.path.endswith("/preupload/main"):
            files = json.loads(body)["files"]
            modes = [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]
            self._answer({"files": modes})
        elif self.path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    hub.files[line["value"]["path"]] = line["value"]["content"]
            oid = hashlib.sha1(body).hexdigest()
            self._answer({"commitUrl": f"{hub.url}/me/doom/commit/{oid}", "commitOid": oid, "hookOutput": ""})
        else:
            self._answer({})

    def do_GET(self):
        self._answer({"id": "me/doom", "siblings": [], "sha": "0" * 40})

    def _answer(self, data, status=200):
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    pytest.importorskip("huggingface_hub")
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    server.asked, server.files, server.refusal = [], {}, ""
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def push(run_dir, hub, home):
    command = [sys.executable, "-m", "sample_profiler", "export", str(run_dir), "--push_to_hub", "me/doom"]
    own = {"HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_made_up", "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    environment = {**os.environ, **own}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)


def test_a_folder_is_uploaded_to_a_hub_as_who_has_the_token(run_dir, hub, tmp_path):
    result = push(run_dir, hub, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{hub.url}/me/doom: ")
    assert {"README.md", "config.json", "model.onnx", "policy.json"} <= set(hub.files)
    assert {token for _, token in hub.asked} == {"Bearer hf_made_up"}


def test_a_hub_that_refuses_is_told_of(run_dir, hub, tmp_path):
    hub.refusal = "not yours"
    result = push(run_dir, hub, tmp_path)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert "sample-profiler export: --push_to_hub=me/doom: " in result.stderr
