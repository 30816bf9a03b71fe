"""Owns which names of `sample_factory` are served, and what each of them is here."""

from __future__ import annotations

__all__ = ["REFUSED", "SERVED"]

SERVED: dict[str, dict[str, str]] = {
    "algo.learning.learner": {"compat.running.checkpoints": "Learner"},
    "algo.runners.runner": {
        "compat.running.training": "Runner",
        "compat.running.observers": "AlgoObserver",
        "compat.helpers.types": "MsgHandler PolicyMsgHandler",
    },
    "algo.runners.runner_parallel": {"compat.running.training": "ParallelRunner=Runner"},
    "algo.runners.runner_serial": {"compat.running.training": "SerialRunner=Runner"},
    "algo.sampling.batched_sampling": {
        "compat.environments.batched": "preprocess_actions",
        "compat.running.absent": "BatchedVectorEnvRunner",
    },
    "algo.sampling.non_batched_sampling": {"compat.running.absent": "NonBatchedVectorEnvRunner"},
    "algo.sampling.sampler": {"compat.running.absent": "SerialSampler"},
    "algo.sampling.simplified_sampling_api": {"compat.running.sampling": "SyncSamplingAPI"},  # until 2.1.1
    "algo.sampling.sync_sampling_api": {"compat.running.sampling": "SyncSamplingAPI"},
    "algo.utils.action_distributions": {
        "compat.networks.distributions": "argmax_actions calc_num_action_parameters calc_num_actions "
        "get_action_distribution is_continuous_action_space sample_actions_log_probs",
    },
    "algo.utils.context": {
        "compat.networks.factory": "global_model_factory",
        "compat.environments.registry": "global_env_registry",
        "compat.running.context": "SampleFactoryContext reset_global_context sf_global_context",
    },
    "algo.utils.misc": {
        "compat.running.statuses": "ExperimentStatus",
        "compat.running.observers": "EPISODIC POLICY_ID_KEY TRAIN_STATS",
        "compat.helpers.utilities": "EPS",
    },
    "algo.utils.env_info": {
        "compat.environments.batched": "EnvInfo extract_env_info obtain_env_info_in_a_separate_process",
    },
    "algo.utils.gymnasium_utils": {"compat.environments.older_gym": "convert_space patch_non_gymnasium_env"},
    "algo.utils.make_env": {
        "compat.running.absent": "SequentialVectorizeWrapper",
        "compat.environments.agents": "get_multiagent_info is_multiagent_env=is_multiagent",
        "compat.environments.batched": "BatchedVecEnv NonBatchedVecEnv make_env_func_batched make_env_func_non_batched",
    },
    "algo.utils.rl_utils": {
        "compat.helpers.rollouts": "make_dones num_agents_per_worker samples_per_trajectory total_num_agents "
        "total_num_envs trajectories_per_minibatch trajectories_per_training_iteration",
        "compat.networks.inference": "prepare_and_normalize_obs",
    },
    "algo.utils.running_mean_std": {
        "compat.networks.normalizers": "RunningMeanStdDictInPlace RunningMeanStdInPlace running_mean_std_summaries",
    },
    "algo.utils.spaces.discretized": {"compat.environments.spaces": "Discretized"},
    "algo.utils.tensor_dict": {
        "compat.helpers.tensors": "TensorDict cat_tensordicts clone_tensordict shallow_recursive_copy "
        "tensor_dict_to_numpy to_numpy",
    },
    "algo.utils.tensor_utils": {
        "compat.helpers.tensors": "cat_tensors clone_tensor dict_of_lists_cat ensure_numpy_array ensure_torch_tensor "
        "unsqueeze_tensor",
    },
    "algo.utils.torch_utils": {
        "compat.networks.parts": "calc_num_elements",
        "compat.helpers.tensors": "inference_context init_torch_runtime masked_select synchronize to_scalar "
        "to_torch_dtype",
    },
    "cfg.arguments": {
        "compat.settings.arguments": "default_cfg parse_full_cfg parse_sf_args postprocess_args",
        "compat.settings.saved": "cfg_dict cfg_str checkpoint_override_defaults load_from_checkpoint "
        "maybe_load_from_checkpoint preprocess_cfg verify_cfg",
    },
    "cfg.configurable": {"compat.helpers.utilities": "Configurable"},
    "enjoy": {
        "compat.running.playing": "enjoy render_frame visualize_policy_inputs",
        "compat.running.checkpoints": "load_state_dict",
        "compat.environments.batched": "make_env",
        # Scripts import all of this module, and go on with what it has imported itself.
        "compat.environments.registry": "create_env",
        "compat.environments.agents": "np",
        "compat.helpers.types": "Config StatusCode",
        "compat.helpers.utilities": "log",
        "compat.networks.inference": "create_actor_critic",
        "compat.networks.parts": "torch",
        "compat.settings.attributes": "AttrDict",
        "compat.settings.saved": "load_from_checkpoint",
        "collections": "deque",
        "typing": "Dict Tuple",
    },
    "envs.create_env": {"compat.environments.registry": "create_env"},
    "envs.env_wrappers": {
        "compat.environments.wrappers": "EpisodeCounterWrapper NumpyObsWrapper PixelFormatChwWrapper RecordingWrapper "
        "ResizeWrapper RewardScalingWrapper TimeLimitWrapper has_image_observations",
        "compat.environments.atari": "ClipRewardEnv EpisodicLifeEnv FireResetEnv MaxAndSkipEnv NoopResetEnv",
    },
    "envs.pettingzoo_envs": {"compat.environments.pettingzoo": "PettingZooParallelEnv"},
    "envs.env_utils": {
        "compat.environments.registry": "register_env",
        "compat.environments.interfaces": "EnvCriticalError RewardShapingInterface TrainingInfoInterface "
        "find_training_info_interface find_wrapper_interface get_default_reward_shaping num_env_steps retry "
        "set_reward_shaping set_training_info vizdoom_available",
    },
    "eval": {"compat.running.evaluating": "do_eval"},
    "export_onnx": {
        "compat.running.exporting": "OnnxExporter create_onnx_exporter export_onnx generate_args generate_rnn_states",
    },
    "huggingface.huggingface_utils": {
        "compat.running.publishing": "generate_model_card generate_replay_video load_from_hf push_to_hf",
    },
    "huggingface.load_from_hub": {"compat.running.publishing": "main=download"},
    "huggingface.push_to_hub": {"compat.running.publishing": "main=publish"},
    "launcher.launcher_utils": {"compat.running.launcher": "seeds"},
    "launcher.run": {"compat.running.launching": "launcher_argparser main parse_args"},
    "launcher.run_description": {
        "compat.running.launcher": "Experiment ParamGenerator ParamGrid ParamList RunDescription",
    },
    "launcher.run_processes": {"compat.running.launching": "run"},
    "model.action_parameterization": {
        "compat.networks.actor_critics": "ActionParameterizationContinuousNonAdaptiveStddev "
        "ActionParameterizationDefault ActionsParameterization",
    },
    "model.actor_critic": {
        "compat.networks.actor_critics": "ActorCritic ActorCriticSeparateWeights ActorCriticSharedWeights "
        "default_make_actor_critic_func obs_space_without_action_mask",
        "compat.networks.inference": "create_actor_critic",
    },
    "model.core": {
        "compat.networks.parts": "ModelCore ModelCoreIdentity ModelCoreRNN default_make_core_func",
    },
    "model.decoder": {"compat.networks.parts": "Decoder MlpDecoder default_make_decoder_func"},
    "model.encoder": {
        "compat.networks.images": "ConvEncoderImpl ResBlock",
        "compat.networks.parts": "ConvEncoder=ImageEncoder Encoder MlpEncoder MultiInputEncoder "
        "ResnetEncoder=ImageEncoder default_make_encoder_func make_img_encoder "
        "ModelModule calc_num_elements create_mlp model_device nonlinearity torch",
        # Scripts import all of this module, and go on with what it has imported itself.
        "compat.helpers.types": "Config ObsSpace",
        "compat.helpers.utilities": "log",
        "compat.settings.attributes": "AttrDict",
        "gymnasium": "spaces",
        "torch": "Tensor nn",
        "typing": "Dict List Optional",
    },
    "model.model_factory": {
        "compat.networks.factory": "ModelFactory",
        "compat.helpers.types": "MakeActorCriticFunc MakeCoreFunc MakeDecoderFunc MakeEncoderFunc",
    },
    "model.model_utils": {
        "compat.networks.factory": "get_rnn_size",
        "compat.networks.parts": "ModelModule create_mlp fc_layer model_device nonlinearity",
    },
    "model.utils": {"compat.networks.parts": "he_normal_init orthogonal_init"},
    "pbt.population_based_training": {"compat.running.absent": "PopulationBasedTraining"},
    "train": {"compat.running.training": "make_runner run_rl"},
    "utils.algo_version": {"compat.running.launcher": "ALGO_VERSION"},
    "utils.attr_dict": {"compat.settings.attributes": "AttrDict"},
    "utils.decay": {"compat.helpers.arithmetic": "LinearDecay"},
    "utils.dicts": {
        "compat.helpers.dictionaries": "copy_dict_structure dict_of_lists_append dict_of_lists_append_idx "
        "get_first_present iter_dicts_recursively iterate_recursively iterate_recursively_with_prefix "
        "list_of_dicts_to_dict_of_lists",
    },
    "utils.network": {"compat.helpers.utilities": "is_udp_port_available"},
    "utils.normalize": {"compat.networks.normalizers": "ObservationNormalizer"},
    "utils.timing": {"compat.helpers.timing": "Timing"},
    "utils.typing": {
        "compat.helpers.types": "ActionDistribution ActionSpace Config CreateEnvFunc Device Env InitModelData MpLock "
        "MpQueue ObsSpace PolicyID StatusCode",
    },
    "utils.wandb_utils": {"compat.running.summaries": "finish_wandb init_wandb"},
    "utils.utils": {
        "compat.helpers.utilities": "debug_log_every_n ensure_dir_exists get_username is_module_available log "
        "log_every_n maybe_ensure_dir_exists memory_consumption_mb project_tmp_dir remove_if_exists retry "
        "safe_ensure_dir_exists set_attr_if_exists static_vars str2bool",
        "compat.helpers.arithmetic": "ensure_contigious max_with_idx min_with_idx numpy_all_the_way numpy_flatten "
        "scale_to_range",
        "compat.helpers.processes": "cores_for_worker_process set_process_cpu_affinity",
        "compat.settings.saved": "cfg_file experiment_dir experiments_dir summaries_dir",
    },
}
"""By module: names by the module that has them, of `sample_profiler` if it is `compat.…`, there perhaps as others
(`theirs=ours`)."""

REFUSED = {
    "algo.learning": "only for what derives from its Learner, and training is one piece here",
    "algo.sampling": "sampling is one piece here; see sample_profiler.Collector",
    "algo.utils.model_sharing": "only for what derives from its Learner",
    "algo.utils.shared_buffers": "only for what derives from its Learner",
    "algo.runners": "there is one Runner here; see make_runner",
    "algo.utils.optimizers": "the optimizer is chosen with --optimizer",
    "algorithms": "this is of Sample Factory 1",
    "run_algorithm": "this is of Sample Factory 1",
    "huggingface": "see sample-profiler export --push_to_hub",
    "pbt": "there is no population-based training here",
    "utils.tb": "run tensorboard --logdir with the folder of runs",
}
"""Why modules and names are not, by how they begin."""
