"""Names of `sample_factory` in processes of their own: nothing of it shall be left in that of the tests."""

import subprocess
import sys

import pytest

from sample_profiler.compat.serving.names import SERVED


def run(program, *, with_compat=True):
    begin = "import sample_profiler.compat\nsample_profiler.compat.install()\n" if with_compat else ""
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_every_name_is_served_by_something():
    names = [
        f"from sample_factory.{module} import {name.partition('=')[0]}"
        for module, sources in SERVED.items()
        for names in sources.values()
        for name in names.split()
    ]
    assert len(names) > 200
    status, _, told = run("\n".join(names))
    assert status == 0, told


def test_modules_are_imported_in_every_way():
    program = (
        "import sample_factory.algo.utils.misc as misc, sample_factory.utils\n"
        "from sample_factory.utils import utils\n"
        "from sample_factory.cfg.arguments import *\n"
        "print(misc.ExperimentStatus.SUCCESS, utils.str2bool('True'), parse_sf_args.__name__, 'EPS' in dir(misc))"
    )
    assert run(program)[1] == "0 True parse_sf_args True"


def test_all_of_the_module_that_plays_is_enough_for_a_loop_of_ones_own():
    program = (
        "from sample_factory.enjoy import *\n"
        "def play(cfg: Config) -> StatusCode:\n"
        "    return log.name, load_from_checkpoint, torch.zeros(1), np.zeros(1), deque()\n"
        "print(len(play(AttrDict())) - 1, enjoy.__name__, make_env.__name__)"
    )
    assert run(program)[1:] == ("4 enjoy make_env", "")


def test_all_of_the_module_of_encoders_is_enough_to_write_one():
    program = (
        "from sample_factory.model.encoder import *\n"
        "class Own(Encoder):\n"
        "    def __init__(self, cfg: Config, obs_space: ObsSpace) -> None:\n"
        "        super().__init__(cfg)\n"
        "        self.net = create_mlp([cfg.width], obs_space['obs'].shape[0], nonlinearity(cfg))\n"
        "        self.last: Optional[nn.Module] = nn.Linear(calc_num_elements(self.net, (3,)), 2)\n"
        "    def forward(self, obs_dict: Dict[str, Tensor]) -> Tensor:\n"
        "        return torch.tanh(self.last(self.net(obs_dict['obs'])))\n"
        "space = spaces.Dict(obs=spaces.Box(-1, 1, (3,)))\n"
        "own = Own(AttrDict(width=4, nonlinearity='elu'), space)\n"
        "print(tuple(own({'obs': torch.zeros(5, 3)}).shape), model_device(own), List[int], log.name != '')"
    )
    status, told, error = run(program)
    assert status == 0, error
    assert told == "(5, 2) cpu typing.List[int] True"


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("from sample_factory.algo.utils.shared_buffers import BufferMgr", ["algo.utils.shared_buffers", "Learner"]),
        ("import sample_factory.pbt.mutation", ["sample_factory.pbt", "population-based training"]),
        ("from sample_factory.utils.utils import kill", ["utils.utils.kill", "migrating.md"]),
        ("from sample_factory.algorithms.appo import appo", ["sample_factory.algorithms", "Sample Factory 1"]),
        ("import sample_factory.utils.tb", ["tensorboard --logdir"]),
    ],
)
def test_what_is_not_served_says_so_in_one_line(line, parts):
    status, _, told = run(line)
    assert status == 1
    last = told.splitlines()[-1]
    assert "is not served by sample_profiler.compat" in last
    assert all(part in last for part in parts), last


def test_who_only_looks_whether_there_is_a_name_is_told_that_there_is_none():
    program = (
        "import pickle, torch, sample_factory.utils.utils as utils\n"
        "pickle.dumps(torch.relu)\n"  # asks all modules for the name of a function that has none
        "print(hasattr(utils, 'nothing'), hasattr(utils, '__wrapped__'))"
    )
    assert run(program)[1] == "False False"


def test_nothing_of_it_is_there_for_those_who_do_not_ask_for_it():
    program = (
        "import sys, importlib.util, sample_profiler, sample_profiler.cli.main, sf_examples.vizdoom.train_vizdoom\n"
        "found = [name for name in sys.modules if name.startswith('sample_profiler.compat')]\n"
        "print(importlib.util.find_spec('sample_factory'), found)"
    )
    assert run(program, with_compat=False)[1] == "None []"


def test_what_workers_need_imports_no_torch():
    program = (
        "import sys\n"
        "from sample_factory.envs.env_utils import register_env, TrainingInfoInterface\n"
        "from sample_factory.envs.env_wrappers import TimeLimitWrapper\n"
        "from sample_factory.algo.utils.context import global_model_factory\n"
        "from sample_factory.algo.utils.rl_utils import make_dones\n"
        "from sample_factory.cfg.arguments import parse_sf_args, parse_full_cfg\n"
        "from sample_factory.train import run_rl\n"
        "from sample_factory.enjoy import enjoy\n"
        "from sample_factory.utils.typing import Config\n"
        "print('torch' in sys.modules)"
    )
    assert run(program)[1] == "False"


def test_an_original_that_was_imported_is_not_replaced(tmp_path):
    (tmp_path / "sample_factory.py").write_text("")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sample_factory, sample_profiler.compat as c"
    status, _, told = run(f"{program}\nc.install()", with_compat=False)
    assert status == 1
    assert "sample_factory has been imported already" in told


def test_the_launcher_runs_as_a_module():
    program = [sys.executable, "-m", "sample_profiler.compat", "-m", "sample_factory.launcher.run", "--backend=slurm"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "--backend=slurm is not served" in done.stderr
