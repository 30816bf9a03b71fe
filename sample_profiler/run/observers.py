"""Owns what somebody may be told while a run goes on: the console, TensorBoard, a user's own script."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy.typing as npt

    from sample_profiler.run.records.statistics import RunStatus
    from sample_profiler.run.runner import Runner

__all__ = ["RunObserver", "SummaryWriter", "check_observers"]


class SummaryWriter(Protocol):
    """Writes figures, texts, pictures and videos of one policy for TensorBoard.

    Tags are names with a group before a slash: "mine/score"; steps are the frames trained on. Arrays are those of numpy
    and whatever it can read, such as tensors on the processor.
    """

    def add_scalar(self, tag: str, value: float, global_step: int) -> None:
        """Write one value.

        Args:
            tag: its name.
            value: finite or not.
            global_step: frames trained on.
        """

    def add_histogram(self, tag: str, values: npt.ArrayLike, global_step: int, bins: int = 30) -> None:
        """Write how values are spread.

        Args:
            tag: their name.
            values: of any shape; those that are not finite are left out.
            global_step: frames trained on.
            bins: in which they are counted.
        """

    def add_image(self, tag: str, image: npt.ArrayLike, global_step: int, dataformats: str = "CHW") -> None:
        """Write a picture.

        Args:
            tag: its name.
            image: uint8, or numbers from 0 to 1, with 1, 3 or 4 channels.
            global_step: frames trained on.
            dataformats: order of its axes: "CHW", "HWC" or "HW".

        Raises:
            ValueError: it is no such picture.
        """

    def add_video(self, tag: str, video: npt.ArrayLike, global_step: int, fps: float = 4) -> None:
        """Write videos, side by side.

        Args:
            tag: their name.
            video: `[videos, frames, channels, height, width]`, of pictures as above.
            global_step: frames trained on.
            fps: frames per second.

        Raises:
            ValueError: it is no such video.
        """

    def add_text(self, tag: str, text: str, global_step: int) -> None:
        """Write a text, which is shown as Markdown.

        Args:
            tag: its name.
            text: of any length.
            global_step: frames trained on.
        """


class RunObserver:
    """Somebody who is told how a run goes; override what is of interest.

    All methods are called in the thread of the Runner, which listens to no component meanwhile, and in serial mode all
    components wait: take a few milliseconds at most, and give what takes longer to a process or thread of your own.
    Each call is a block in the Runner's tree, `observers`, in it the class's name, in that the method's. Whoever takes
    much of the Runner's time is named in the log and by the verdict.

    A run does not wait for who is slow. What is owed to observers is told bit by bit, between one look of the Runner at
    clock, signals and components and the next; where the run shares its process with them, they have half of its time
    at most. When it has ended, they are told for up to a second what they are still owed, the quick ones first; the
    log says of how many training steps and messages somebody was not told. The last `on_summaries`, and `on_stop`, are
    called in any case.

    An exception ends the run as a failure of the Runner; whoever raised it is told of nothing more but `on_stop`. The
    Runner can be asked for more: `statistics`, `call`, `register_message_handler`, and `signals`, which tell functions
    of what happens, here or in components of one's own.
    """

    def on_connect_components(self, runner: Runner) -> None:
        """Connect slots to signals, before any component is started; called before all others.

        A slot is called in the event loop of whom it belongs to: a method of a component of one's own
        (`train(components=[…])`) in that one's process, all others as message handlers are::

            runner.signals.checkpoint_saved.connect(self.note_checkpoint)
            runner.component("Learner_0").training_step.connect(my_component.on_step)
        """

    def on_init(self, runner: Runner) -> None:
        """See the run before anything is trained: the moment to register message handlers.

        Components can be asked already; those in processes of their own answer once they have started. Of a run that
        is interrupted while it starts, some may be missing.
        """

    def on_start(self, runner: Runner) -> None:
        """See the run begin: all components have been started."""

    def on_status(self, status: RunStatus) -> None:
        """See the run as it is now; called about once a second, as far as there is time for it."""

    def on_training_step(self, runner: Runner, training_iteration: int) -> None:
        """See that another dataset has been trained on.

        Called once for each, in order, about once a second for all since the last time; later where there was no time.

        Args:
            runner: of the run.
            training_iteration: 1 for the first of this run, of all policies together.
        """

    def on_summaries(self, status: RunStatus) -> None:
        """Write the run's figures down; called every `experiment_summaries_interval` seconds and once at the end."""

    def extra_summaries(self, runner: Runner, policy_id: int, env_steps: int, writer: SummaryWriter) -> None:
        """Add figures of one's own to the summaries of a policy.

        Args:
            runner: of the run.
            policy_id: number of the policy.
            env_steps: frames that it has been trained on.
            writer: takes the figures.
        """

    def on_stop(self, runner: Runner) -> None:
        """Let go of everything; called once, also after a failure."""


def check_observers(observers: Iterable[RunObserver]) -> tuple[RunObserver, ...]:
    """Return the observers of a run.

    Raises:
        TypeError: one of them is none, such as a class instead of an instance of it.
    """
    if isinstance(observers, RunObserver):
        raise TypeError("observers are given as a list: observers=[…]")
    checked = tuple(observers)
    for observer in checked:
        if isinstance(observer, type) and issubclass(observer, RunObserver):
            raise TypeError(f"the observer {observer.__name__} is a class: give an instance, {observer.__name__}()")
        if not isinstance(observer, RunObserver):
            raise TypeError(f"{observer!r:.200} is no observer: derive its class from RunObserver and give an instance")
    return checked
