"""All components of a synchronous run in one thread, for tests that look at what it trains on."""

from __future__ import annotations

from dataclasses import replace

COMPONENTS = ("Learner_0", "Batcher_0", "InferenceWorker_p0-w0", "RolloutWorker_w0")


class Run:
    """All components of a synchronous run, whose datasets are sampled with the weights that are trained next."""

    def __init__(self, blueprint, make_component):
        self.blueprint = blueprint
        self.components = [make_component(blueprint, name)[0] for name in COMPONENTS]
        self.trainer = self.components[0]._trainer
        self.inputs = [each for component in self.components for each in component.inputs()]
        for component in self.components:
            component.start()

    def train(self, num_steps, look=lambda batches: None):
        """Take so many optimizer steps; `look` sees the micro-batches and targets of each before it is taken."""
        train_minibatch = self.trainer.train_minibatch

        def look_and_train(micro_batches, num_valid):
            batches = [(replace(batch, observations=list(batch.observations)), each) for batch, each in micro_batches]
            look(batches)
            train_minibatch(batches, num_valid)

        self.trainer.train_minibatch = look_and_train
        while self.trainer.num_steps < num_steps:
            for source in self.inputs:
                if values := source.source.receive():
                    source.handle(values)
