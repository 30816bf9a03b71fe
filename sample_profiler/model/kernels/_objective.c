/* The terms of the PPO objective (Schulman et al. 2017, arXiv:1707.06347), as ppo/losses.py has them, together with
   their gradient: in PyTorch they are some 60 operations on as many numbers as there are steps, each of which takes
   longer to begin than to compute.

   Arrays come as addresses: ppo/objective.py has checked types, sizes and layouts. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    float lowest_log_ratio, highest_log_ratio; /* ratios beyond are noise */
    float lowest_ratio, highest_ratio;         /* to which the objective clips them */
    float most_change_of_value;
    float value_coefficient, entropy_coefficient;
    float lowest_log_stddev, highest_log_stddev;
} Options;

/* Of one step's distribution; their derivatives by each parameter are written beside it. */
typedef struct {
    float log_probability, entropy;
} Step;

static Step categorical(
    const float *logits, int64_t action, float *of_log_probability, float *of_entropy, Py_ssize_t num_actions
) {
    float highest = logits[0], sum = 0.0f;
    for (Py_ssize_t i = 1; i < num_actions; i++)
        highest = logits[i] > highest ? logits[i] : highest;
    for (Py_ssize_t i = 0; i < num_actions; i++)
        sum += expf(logits[i] - highest);
    float log_sum = logf(sum);
    int is_known = action >= 0 && action < num_actions;
    Step step = {is_known ? logits[action] - highest - log_sum : NAN, 0.0f};
    for (Py_ssize_t i = 0; i < num_actions; i++) {
        float log_probability = logits[i] - highest - log_sum, probability = expf(log_probability);
        step.entropy -= probability * log_probability;
        of_log_probability[i] = (i == action ? 1.0f : 0.0f) - probability;
    }
    for (Py_ssize_t i = 0; i < num_actions; i++) {
        float log_probability = logits[i] - highest - log_sum;
        of_entropy[i] = -expf(log_probability) * (log_probability + step.entropy);
    }
    return step;
}

static Step diagonal_gaussian(
    const float *parameters, const float *action, float *of_log_probability, float *of_entropy, Py_ssize_t num_entries,
    const Options *options
) {
    Step step = {0.0f, 0.0f};
    for (Py_ssize_t i = 0; i < num_entries; i++) {
        float log_stddev = parameters[num_entries + i];
        int is_beyond = log_stddev < options->lowest_log_stddev || log_stddev > options->highest_log_stddev;
        log_stddev = log_stddev < options->lowest_log_stddev ? options->lowest_log_stddev : log_stddev;
        log_stddev = log_stddev > options->highest_log_stddev ? options->highest_log_stddev : log_stddev;
        float stddev = expf(log_stddev), deviation = (action[i] - parameters[i]) / stddev;
        step.log_probability -= 0.5f * deviation * deviation + log_stddev + 0.918938533f; /* log(2 pi) / 2 */
        step.entropy += log_stddev + 1.418938533f;                                        /* the same and 1 / 2 */
        of_log_probability[i] = deviation / stddev;
        of_log_probability[num_entries + i] = is_beyond ? 0.0f : deviation * deviation - 1.0f;
        of_entropy[i] = 0.0f;
        of_entropy[num_entries + i] = is_beyond ? 0.0f : 1.0f;
    }
    return step;
}

/* Return what is to be minimized, and write its gradient. NaN stays NaN everywhere: somebody has to notice it. */
static double objective(
    int is_continuous, const float *parameters, const float *values, const void *actions,
    const float *old_log_probabilities, const float *old_values, const float *advantages, const float *returns,
    const float *valid, float *of_parameters, float *of_values, float *of_entropy, Py_ssize_t num_rows,
    Py_ssize_t num_parameters, const Options *options
) {
    double total = 0.0;
    for (Py_ssize_t row = 0; row < num_rows; row++, parameters += num_parameters, of_parameters += num_parameters) {
        if (valid[row] == 0.0f) { /* what does not count may have overflowed */
            memset(of_parameters, 0, (size_t)num_parameters * sizeof(float));
            of_values[row] = 0.0f;
            continue;
        }
        Step step;
        if (is_continuous)
            step = diagonal_gaussian(
                parameters, (const float *)actions + row * (num_parameters / 2), of_parameters, of_entropy,
                num_parameters / 2, options
            );
        else
            step = categorical(
                parameters, ((const int64_t *)actions)[row], of_parameters, of_entropy, num_parameters
            );
        float log_ratio = step.log_probability - old_log_probabilities[row], advantage = advantages[row];
        int is_noise = log_ratio < options->lowest_log_ratio || log_ratio > options->highest_log_ratio;
        log_ratio = log_ratio < options->lowest_log_ratio ? options->lowest_log_ratio : log_ratio;
        log_ratio = log_ratio > options->highest_log_ratio ? options->highest_log_ratio : log_ratio;
        float ratio = expf(log_ratio), clipped = ratio;
        clipped = clipped < options->lowest_ratio ? options->lowest_ratio : clipped;
        clipped = clipped > options->highest_ratio ? options->highest_ratio : clipped;
        float gained = ratio * advantage, gained_if_clipped = clipped * advantage;
        int is_clipped = gained > gained_if_clipped; /* then nothing is gained by going further */
        float of_ratio = is_clipped || is_noise ? 0.0f * advantage : -advantage;
        float of_log_probability = of_ratio * ratio;
        for (Py_ssize_t i = 0; i < num_parameters; i++)
            of_parameters[i] = of_log_probability == 0.0f ? 0.0f : of_parameters[i] * of_log_probability;
        for (Py_ssize_t i = 0; i < num_parameters && options->entropy_coefficient != 0.0f; i++)
            of_parameters[i] -= options->entropy_coefficient * of_entropy[i];

        float change = values[row] - old_values[row];
        float limited = change > options->most_change_of_value ? options->most_change_of_value : change;
        limited = limited < -options->most_change_of_value ? -options->most_change_of_value : limited;
        float error = values[row] - returns[row], error_if_limited = old_values[row] + limited - returns[row];
        float square = error * error, square_if_limited = error_if_limited * error_if_limited;
        int is_limited = limited != change && !(square >= square_if_limited);
        int is_even = limited != change && square == square_if_limited; /* half of either gradient, as in PyTorch */
        float of_square = is_limited ? 0.0f * error_if_limited : (is_even ? 1.0f : 2.0f) * error;
        square = is_limited ? square_if_limited : square;
        of_values[row] = options->value_coefficient * of_square;

        total += options->value_coefficient * (double)square - (double)(is_clipped ? gained_if_clipped : gained);
        if (options->entropy_coefficient != 0.0f)
            total -= options->entropy_coefficient * (double)step.entropy;
    }
    return total;
}

static PyObject *call_objective(PyObject *module, PyObject *arguments) {
    int is_continuous;
    Py_ssize_t parameters, values, actions, old_log_probabilities, old_values, advantages, returns, valid;
    Py_ssize_t of_parameters, of_values, of_entropy, num_rows, num_parameters;
    Options options;
    if (!PyArg_ParseTuple(
            arguments, "p(nnnnnnnn)(nnn)nn(fffffffff)", &is_continuous, &parameters, &values, &actions,
            &old_log_probabilities, &old_values, &advantages, &returns, &valid, &of_parameters, &of_values,
            &of_entropy, &num_rows, &num_parameters, &options.lowest_log_ratio, &options.highest_log_ratio,
            &options.lowest_ratio, &options.highest_ratio, &options.most_change_of_value, &options.value_coefficient,
            &options.entropy_coefficient, &options.lowest_log_stddev, &options.highest_log_stddev
        ))
        return NULL;
    double total;
    Py_BEGIN_ALLOW_THREADS;
    total = objective(
        is_continuous, (float *)parameters, (float *)values, (void *)actions, (float *)old_log_probabilities,
        (float *)old_values, (float *)advantages, (float *)returns, (float *)valid, (float *)of_parameters,
        (float *)of_values, (float *)of_entropy, num_rows, num_parameters, &options
    );
    Py_END_ALLOW_THREADS;
    return PyFloat_FromDouble(total);
}

static PyMethodDef METHODS[] = {
    {"objective", call_objective, METH_VARARGS,
     "objective(is_continuous, (parameters, values, actions, old_log_probabilities, old_values, advantages, returns, "
     "valid), (of_parameters, of_values, of_entropy), num_rows, num_parameters, options): what is to be minimized; "
     "of_entropy is room for one row of parameters."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_objective", "The PPO objective with its gradient, for ppo/objective.py.", 0, METHODS,
};

PyMODINIT_FUNC PyInit__objective(void) { return PyModule_Create(&MODULE); }
