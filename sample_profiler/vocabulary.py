"""The names of blocks and gauges that somebody computes with: components record by them, and rules read them.

Any other name is text for people, and may be changed where it stands. A gauge's name comes after that of its component:
`Batcher_0/free_slots`.
"""

from __future__ import annotations

# Blocks that all components, or the Runner, have.
MAIN_LOOP = "main_loop"
MESSAGE_HANDLERS = "message_handlers"
OBSERVERS = "observers"
RECEIVE = "receive"
SLOTS = "slots"
START_UP = "start_up"
TIMERS = "timers"
WATCH_PROCESSES = "watch_processes"
WAIT = "wait_"
"""What the names of waits begin with; after it comes who is waited for."""
FOR_ACTORS = "actors"
FOR_BATCHER = "batcher"
FOR_COMPONENTS = "components"
FOR_DEVICE = "device"
FOR_INFERENCE = "inference"
FOR_LEARNER = "learner"
FOR_RANKS = "ranks"
FOR_ROLLOUT_WORKERS = "rollout_workers"

# Of RolloutWorkers and evaluations.
DECORRELATE = "decorrelate"
ENQUEUE_POLICY_REQUESTS = "enqueue_policy_requests"
ENV_RESET = "env_reset"
ENV_STEP = "env_step"
MAKE_ENV = "make_env"
MAKE_ENVS = "make_envs"
SIMULATE = "simulate"
WAIT_FOR_TRAJECTORIES = "wait_for_trajectories"

# Of inference.
FORWARD = "forward"
HANDLE_POLICY_STEP = "handle_policy_step"
MAKE_INFERENCE = "make_inference"
OBS_TO_DEVICE_NORMALIZE = "obs_to_device_normalize"
PREPARE_OUTPUTS = "prepare_outputs"
SEND_MESSAGES = "send_messages"
TO_CPU = "to_cpu"
WAIT_POLICY = "wait_policy"

# Of Learners.
ALL_REDUCE = "all_reduce"
CALCULATE_LOSSES = "calculate_losses"
FORWARD_HEAD = "forward_head"
GATHER_OBSERVATIONS = "gather_observations"
LOAD_CHECKPOINT = "load_checkpoint"
PREPARE_BATCH = "prepare_batch"
REPORT_STATISTICS = "report_statistics"
SAVE_CHECKPOINT = "save_checkpoint"
TRAIN = "train"

# Gauges.
ADDING_UP_RATIO = "adding_up_ratio"
AGENTS_PER_ENV = "agents_per_env"
AVAILABLE_MEMORY_MIB = "available_memory_mib"
BATCH_ROWS = "batch_rows"
CHILDREN_CPU_S = "children_cpu_s"
CLOCK_ERROR_S = "clock_error_s"
CLOCK_OFFSET_S = "clock_offset_s"
FINISHED_TRAJECTORIES = "finished_trajectories"
FPS = "fps"
FRAMES = "frames"
FREE_SLOTS = "free_slots"
GPU_MEMORY_MIB = "gpu_memory_mib"
INFERENCE_BATCHES = "inference_batches"
INFERENCE_ROWS = "inference_rows"
LEFT_OUT_SHARE = "left_out_share"
MACHINE_BUSY_S = "machine_busy_s"
MACHINE_CORES = "machine_cores"
NUM_THREADS = "num_threads"
NUM_USEFUL_THREADS = "num_useful_threads"
POLICY_LAG = "policy_lag"
PROGRESS = "progress"
QUOTA_CORES = "quota_cores"
QUOTA_PERIODS = "quota_periods"
QUOTA_PERIODS_HELD_UP = "quota_periods_held_up"
SLOWEST_ENV = "slowest_env"
SLOWEST_ENV_RATIO = "slowest_env_ratio"
SLOWEST_ENV_SHARE = "slowest_env_share"
SLOWEST_PERCENT_SHARE = "slowest_percent_share"
SLOWEST_PERMILLE_SHARE = "slowest_permille_share"
SLOWEST_RANK = "slowest_rank"
SLOWEST_RANK_IN_STEPS = "slowest_rank_in_steps"
STOOD_STILL_S = "stood_still_s"
TAIL_ENV = "tail_env"
TAIL_NUM_ENVS = "tail_num_envs"
TAIL_NUM_STEPS = "tail_num_steps"
TAIL_OTHER_ENV = "tail_other_env"
TAIL_SHARE = "tail_share"
TAIL_STEP_S = "tail_step_s"
TAIL_STEPS_SHARE = "tail_steps_share"
TRAJECTORIES_AT_LEARNER = "trajectories_at_learner"
WAITING_GROUPS = "waiting_groups"
WAY_SHARE = "way_share"

# What Learners measure of how training goes. In TensorBoard these names follow `train/`.
ADVANTAGE_SCALE = "advantage_scale"
BAD_STEPS = "bad_steps"
CLIP_SHARE = "clip_share"
DEAD_INPUTS = "dead_inputs"
ENTROPY = "entropy"
ENTROPY_SHARE = "entropy_share"
EXPLAINED_VARIANCE = "explained_variance"
GRAD_NORM = "grad_norm"
INPUT_SCALE = "input_scale"
LAG_MEAN = "policy_lag_mean"
NUM_DISTINCT_STARTS = "num_distinct_starts"
NUM_STARTS = "num_starts"
REWARD_CLIPPED = "reward_clipped"
REWARD_LEFT = "reward_left"
REWARD_NONZERO = "reward_nonzero"
UNCHANGED_OBSERVATIONS = "unchanged_observations"
UPDATE_KL = "update_kl"
LEARNING_FIGURES = (
    *(UPDATE_KL, CLIP_SHARE, ENTROPY, ENTROPY_SHARE, EXPLAINED_VARIANCE, ADVANTAGE_SCALE, GRAD_NORM, LAG_MEAN),
    *(INPUT_SCALE, DEAD_INPUTS, UNCHANGED_OBSERVATIONS, REWARD_NONZERO, REWARD_CLIPPED, REWARD_LEFT),
    *(BAD_STEPS, NUM_STARTS, NUM_DISTINCT_STARTS),
)
"""What the second verdict, on learning, is made of."""

# What the Runner has seen the main threads of components sleep for, in so many looks at each.
LOOKS = "looks"
SLEEPS = ("timer", "disk", "network", "process", "lock", "memory")
"""For a moment to come; a disk; another machine; another process; another thread or a lock; a page of its memory."""


def sleep_counter(kind: str, what: str) -> str:
    """Return the name of the Runner's gauge that counts looks, or one of the sleeps, of all components of a kind."""
    return f"{kind}.{what}"
