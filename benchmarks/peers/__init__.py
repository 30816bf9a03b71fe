"""Programs that train with one framework each and write down when how many frames had been trained on.

`python -m benchmarks.versus` runs them, each in its framework's own virtual environment. They write a JSON list of
`[seconds since the process was started, frames]`, one entry for each training step that was seen, 20 looks a second.
"""
