"""A checkout of Sample Factory beside ours: each finds its own modules, and those that ours has not are found too."""

import subprocess
import sys

import pytest

from sample_profiler.compat import SITE


@pytest.fixture
def checkout(tmp_path):
    for folder in ("sf_examples", "sf_examples/vizdoom", "sf_examples/nethack"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    for module in ("vizdoom/train_vizdoom", "vizdoom/theirs", "nethack/train_nethack"):
        (tmp_path / "sf_examples" / f"{module}.py").write_text("whose = 'theirs'\n")
    return tmp_path


def whose(checkout, *path):
    program = (
        f"import sys, sf_examples.beside; sys.path.append({str(checkout)!r})\n"
        "[sys.modules.pop(name) for name in list(sys.modules) if name.startswith('sf_examples')]\n"
        f"sys.path[:0] = {list(path)!r}\n"
        "import sf_examples.nethack.train_nethack, sf_examples.vizdoom.theirs\n"
        "import sf_examples.vizdoom.train_vizdoom as train\n"
        "print(getattr(train, 'whose', 'ours'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr


def test_what_ours_has_not_is_found_behind_it(checkout):
    assert whose(checkout) == "ours"


def test_where_code_for_the_original_runs_its_own_modules_come_first(checkout):
    assert whose(checkout, SITE) == "theirs"


def test_programs_of_the_course_find_what_they_import(tmp_path):
    program = (
        "import sample_profiler.compat as compat; compat.install()\n"
        "import functools\n"
        "from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args\n"
        "from sample_factory.envs.env_utils import register_env\n"
        "from sf_examples.vizdoom.doom.doom_model import make_vizdoom_encoder\n"
        "from sf_examples.vizdoom.doom.doom_params import add_doom_env_args, doom_override_defaults\n"
        "from sf_examples.vizdoom.doom.doom_utils import DOOM_ENVS, make_doom_env_from_spec\n"
        "for spec in DOOM_ENVS: register_env(spec.name, functools.partial(make_doom_env_from_spec, spec))\n"
        "argv = ['--env=doom_basic', '--num_bots=-1', '--wide_aspect_ratio=True']\n"
        "parser, _ = parse_sf_args(argv)\n"
        "add_doom_env_args(parser); doom_override_defaults(parser)\n"
        "cfg = parse_full_cfg(parser, argv)\n"
        "env = make_doom_env_from_spec(DOOM_ENVS[0], 'doom', cfg, None)\n"
        "encoder = make_vizdoom_encoder(cfg, __import__('gymnasium').spaces.Dict({'obs': env.observation_space}))\n"
        "print(env.observation_space.shape, cfg.env_frameskip, encoder.output_size)\n"
        "print(parser.parse_args(['--env=x', '--num_bots=3', '--timelimit=0.5']).num_bots)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == ["(3, 72, 128) 4 512", "3", ""], done.stderr
