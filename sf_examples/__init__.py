"""Environment families to train on, one folder each, with a script that trains."""

from sample_profiler.runtime.signals.early_interrupts import end_silently_if_program

end_silently_if_program("sf_examples", "sf_examples.standalone")
