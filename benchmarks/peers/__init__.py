"""Programs that train with one framework each and write down when how many frames had been trained on.

`python -m benchmarks.versus` runs them, each in its framework's own virtual environment. They write a JSON list of
`[seconds since the process was started, frames]`, one entry for each training step. Sample Factory and
Stable-Baselines3 call back after each; of ours the counters in shared memory are looked at 20 times a second.

Those whose names end in `_return`, of `python -m benchmarks.time_to_return`, train until the mean return of the latest
100 episodes is good enough, and write when that was.
"""
