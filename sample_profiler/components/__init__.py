"""The five nouns of a run (RolloutWorker, InferenceWorker, Batcher, Learner, Runner), what they say, how they are wired."""
