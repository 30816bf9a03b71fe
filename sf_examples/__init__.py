"""Environment families to train on, one folder each, with a script that trains."""

from sample_profiler.runtime.signals.early_interrupts import end_silently_if_program
from sf_examples.beside import path_with_others

__path__ = path_with_others(__path__, __name__)

end_silently_if_program("sf_examples", "sf_examples.standalone")
