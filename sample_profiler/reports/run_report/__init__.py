"""The report of a run, as data, as a page and as text."""
