"""Writes docs/api.md from the docstrings of all public names; with ``--check`` says whether it is up to date."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field

from api_docs.definitions import PACKAGE, ROOT, find_definition, find_public_names, read_module
from api_docs.markdown import format_definition, format_summary, format_text
from generated_pages import write_or_check

PATH = ROOT / "docs" / "api.md"

_INTRODUCTION = """\
# Names for your own code

This page is made from docstrings by `make docs`; change them there. What is not on it may change with every version.
Names load when they are first used: `import sample_profiler` imports neither PyTorch nor any environment. Words are
those of the [glossary](glossary.md); flags are in [configuration](configuration.md).
"""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        title: of it.
        introduction: what is said before its names.
        names: with the modules that they are imported from; "A>B" is the B that the module of A knows, which nobody
            has to import.
        chosen: by name: the members that are told of, where that is not all of them.
    """

    title: str
    introduction: str
    names: list[str]
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)


def make_sections() -> list[Section]:
    """Return the parts of the page, in their order."""
    return [
        Section(
            "Training and playing",
            "A training script is one call of `train` ([quickstart](quickstart.md)).",
            _names(PACKAGE, "train enjoy evaluate Collector as_remote load_policy Policy PolicyEvaluation"),
            chosen={"Policy": ("initial_states", "act", "evaluate")},
        ),
        Section(
            "Environments, networks, policies",
            "What is registered before `train` is called reaches the processes that need it.",
            [
                *_names(PACKAGE, "register_env register_env>MakeEnv register_env>MakeEnv>EnvPlacement"),
                *_names(PACKAGE, "register_encoder register_core register_decoder register_actor_critic"),
                *_names(PACKAGE, "register_policy_mapping envs.wrappers.skip_and_stack"),
                *_names(PACKAGE, "config.option config.option>Limits"),
            ],
        ),
        Section(
            "Watching a run",
            "`train(observers=[…])` takes observers, whose methods get the `Runner`; handlers get messages, and slots "
            "what signals tell ([Extending a run](extending.md)).",
            [
                *_names(PACKAGE, "RunObserver RunObserver>Runner RunObserver>RunStatus RunObserver>SummaryWriter"),
                *_names(f"{PACKAGE}.components.messages", "EpisodesFinished EpisodeStatistics EvaluationFinished"),
                *_names(f"{PACKAGE}.components.messages", "TargetReached TrainingStatistics"),
                *_names(f"{PACKAGE}.run.extensions.signals", "HasSignals Signals Signal"),
                *_names(f"{PACKAGE}.components.messages", "Started TrainingStep WeightsPublished CheckpointSaved"),
                *_names(f"{PACKAGE}.components.messages", "Stopping Stopped"),
                *_names(PACKAGE, "RunComponent"),
                *_names(f"{PACKAGE}.run.extensions.run_access", "RunAccess"),
            ],
            {
                "Signal": ("connect",),
                "Runner": (
                    *("register_message_handler", "call", "enable_profile", "disable_profile"),
                    *("set_profiling_enabled", "set_recording_enabled"),
                ),
            },
        ),
        Section(
            "Measuring",
            "Trees, accounts and timelines are made of what a `Timing` records ([profiling](profiling.md)).",
            [
                *_names(PACKAGE, "Timing get_timing profile_session profile_range set_profiling_enabled"),
                *_names(f"{PACKAGE}.profiling", "set_timing set_recording_enabled TWIN"),
            ],
        ),
        Section(
            "Timers and gauges",
            f"For code that has no `Timing` at hand; `{PACKAGE}.timers` has the same names.",
            _names(PACKAGE, " ".join(find_public_names(f"{PACKAGE}.timers"))),
        ),
        Section(
            "Reading what was recorded",
            "Of a run that goes on, hangs, was killed or has ended.",
            [
                *_names(PACKAGE, "Run Run>Picture read_session"),
                *_names(f"{PACKAGE}.profiling", "Session Session>ProcessRecord Session>ProcessRecord>TreeNode"),
                *_names(f"{PACKAGE}.profiling", "Session>ProcessRecord>TreeNode>Statistics"),
            ],
        ),
        _make_section_of_errors(f"{PACKAGE}.errors"),
    ]


def make_page() -> str:
    """Return the text of docs/api.md."""
    return "\n".join([_INTRODUCTION, *map(_format_section, make_sections())])


def main(argv: list[str]) -> int:
    """Write the page, or with ``--check`` compare it; return the exit status."""
    return write_or_check(argv, PATH, make_page)


def _names(module: str, names: str) -> list[str]:
    return [f"{module}.{name}" for name in names.split()]


def _make_section_of_errors(module: str) -> Section:
    classes = [node.name for node in read_module(module).body if isinstance(node, ast.ClassDef)]
    introduction = format_text(ast.get_docstring(read_module(module)) or "")
    return Section("Errors", introduction, _names(module, " ".join(classes)))


def _format_section(section: Section) -> str:
    rows, entries = ["| name | |", "| --- | --- |"], []
    for name in section.names:
        definition, own = find_definition(name), re.split("[.>]", name)[-1]
        entry = format_definition(own if ">" in name else name, definition, section.chosen.get(own, ()))
        link = f"[`{own}`](#{own.lower()})" if entry else f"`{own}`"
        rows.append(f"| {link} | {format_summary(definition)} |")
        entries += [entry] if entry else []
    return "\n\n".join([f"## {section.title}", section.introduction, "\n".join(rows), *entries]) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
