/* Work of the networks on processors, in one pass each: observations to normalized numbers, planes of an image to
   pixels, activations, drawing actions. PyTorch takes several passes, goes number by number, has an
   expensive expm1, or takes longer to begin than to compute; docs/performance.md has the figures.

   Arrays come as addresses: kernels.py has checked types, sizes and layouts. The loops are written for the compiler
   to vectorize; where it can, it makes them for several processors at once, and the right one is taken at run time. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loops.h"

/* ---- Activations of many numbers ---- */

FOR_EACH_PROCESSOR static void activate_float32(float *values, Py_ssize_t count, int activation) {
    activate_numbers(values, count, activation);
}

#define PIECE 64 /* so many stay in registers, or nearly */

FOR_EACH_PROCESSOR static void activate_bfloat16(uint16_t *values, Py_ssize_t count, int activation) {
    float piece[PIECE];
    for (; count > 0; count -= PIECE, values += PIECE) {
        Py_ssize_t size = count < PIECE ? count : PIECE;
        for (Py_ssize_t i = 0; i < size; i++)
            piece[i] = from_bfloat16(values[i]);
        activate_numbers(piece, size, activation);
        for (Py_ssize_t i = 0; i < size; i++)
            values[i] = to_bfloat16(piece[i]);
    }
}

/* ---- Observations to normalized numbers ---- */

PART_OF_A_LOOP float scaled(float value, float factor, float offset, float limit) {
    value = value * factor + offset;
    value = value > limit ? limit : value; /* NaN stays NaN: somebody has to notice it */
    return value < -limit ? -limit : value;
}

#define SCALE(NAME, TYPE)                                                                                              \
    FOR_EACH_PROCESSOR static void NAME(                                                                               \
        const TYPE *RESTRICT values, const float *RESTRICT factor, const float *RESTRICT offset,                       \
        float *RESTRICT result, Py_ssize_t num_rows, Py_ssize_t row_size, float limit                                  \
    ) {                                                                                                                \
        for (Py_ssize_t row = 0; row < num_rows; row++, values += row_size, result += row_size)                        \
            for (Py_ssize_t i = 0; i < row_size; i++)                                                                  \
                result[i] = scaled((float)values[i], factor[i], offset[i], limit);                                     \
    }

SCALE(scale_bytes, uint8_t)
SCALE(scale_floats, float)
SCALE(scale_doubles, double)

/* ---- Sums of bytes and of their squares ---- */

/* Sums of so many numbers stay in a core's nearest cache while all rows go by. */
#define TILE 2048
/* Squares of so many bytes add up to less than 2^32. */
#define MOST_ROWS 65536

FOR_EACH_PROCESSOR static void add_tile(
    const uint8_t *RESTRICT bytes, uint32_t *RESTRICT sums, uint32_t *RESTRICT squares, Py_ssize_t num_rows,
    Py_ssize_t row_size, Py_ssize_t size
) {
    for (Py_ssize_t row = 0; row < num_rows; row++, bytes += row_size)
        for (Py_ssize_t i = 0; i < size; i++) {
            uint32_t value = bytes[i];
            sums[i] += value;
            squares[i] += value * value;
        }
}

static void sum_bytes(
    const uint8_t *bytes, double *sums, double *squares, Py_ssize_t num_rows, Py_ssize_t row_size
) {
    uint32_t tile_sums[TILE], tile_squares[TILE];
    for (Py_ssize_t first = 0; first < num_rows; first += MOST_ROWS)
        for (Py_ssize_t begin = 0; begin < row_size; begin += TILE) {
            Py_ssize_t rows = num_rows - first < MOST_ROWS ? num_rows - first : MOST_ROWS;
            Py_ssize_t size = row_size - begin < TILE ? row_size - begin : TILE;
            memset(tile_sums, 0, sizeof tile_sums);
            memset(tile_squares, 0, sizeof tile_squares);
            add_tile(bytes + first * row_size + begin, tile_sums, tile_squares, rows, row_size, size);
            for (Py_ssize_t i = 0; i < size; i++) {
                sums[begin + i] += tile_sums[i];
                squares[begin + i] += tile_squares[i];
            }
        }
}

/* ---- Planes of an image to pixels whose channels lie side by side ---- */

/* With a number of channels that the compiler knows, it shuffles whole vectors; so there are three or four. */
#define INTERLEAVE(NUM_CHANNELS, CONVERT)                                                                              \
    for (Py_ssize_t i = 0; i < num_pixels; i++)                                                                        \
        for (Py_ssize_t channel = 0; channel < NUM_CHANNELS; channel++)                                                \
            pixels[i * NUM_CHANNELS + channel] = CONVERT(planes[channel * num_pixels + i]);

#define INTERLEAVE_IMAGES(NAME, FROM, TO, CONVERT)                                                                     \
    FOR_EACH_PROCESSOR static void NAME(                                                                               \
        const FROM *RESTRICT planes, TO *RESTRICT pixels, Py_ssize_t num_images, Py_ssize_t num_channels,              \
        Py_ssize_t num_pixels                                                                                          \
    ) {                                                                                                                \
        for (; num_images > 0; num_images--) {                                                                         \
            if (num_channels == 3) {                                                                                   \
                INTERLEAVE(3, CONVERT)                                                                                 \
            } else {                                                                                                   \
                INTERLEAVE(4, CONVERT)                                                                                 \
            }                                                                                                          \
            planes += num_channels * num_pixels;                                                                       \
            pixels += num_channels * num_pixels;                                                                       \
        }                                                                                                              \
    }

#define SAME(value) (value)
INTERLEAVE_IMAGES(interleave_bytes, uint8_t, uint8_t, SAME)
INTERLEAVE_IMAGES(interleave_float32, float, float, SAME)
INTERLEAVE_IMAGES(interleave_bfloat16, float, uint16_t, to_bfloat16)

/* ---- Bytes of an image to normalized pixels ---- */

FOR_EACH_PROCESSOR static void scale_bytes_to_bfloat16(
    const uint8_t *RESTRICT bytes, const float *RESTRICT factor, const float *RESTRICT offset,
    uint16_t *RESTRICT result, Py_ssize_t size, float limit
) {
    for (Py_ssize_t i = 0; i < size; i++)
        result[i] = to_bfloat16(scaled((float)bytes[i], factor[i], offset[i], limit));
}

/* Bytes are interleaved, and the coefficients once for all images: both are less to move than numbers. */
static int scale_to_pixels(
    const uint8_t *bytes, const float *factor, const float *offset, void *pixels, Py_ssize_t num_images,
    Py_ssize_t num_channels, Py_ssize_t num_pixels, float limit, int is_bfloat16
) {
    Py_ssize_t size = num_channels * num_pixels;
    float *factors = malloc(2 * size * sizeof(float) + size);
    if (factors == NULL)
        return -1;
    float *offsets = factors + size;
    uint8_t *interleaved = (uint8_t *)(offsets + size);
    interleave_float32(factor, factors, 1, num_channels, num_pixels);
    interleave_float32(offset, offsets, 1, num_channels, num_pixels);
    for (Py_ssize_t image = 0; image < num_images; image++) {
        interleave_bytes(bytes + image * size, interleaved, 1, num_channels, num_pixels);
        if (is_bfloat16)
            scale_bytes_to_bfloat16(interleaved, factors, offsets, (uint16_t *)pixels + image * size, size, limit);
        else
            scale_bytes(interleaved, factors, offsets, (float *)pixels + image * size, 1, size, limit);
    }
    free(factors);
    return 0;
}

/* ---- Drawing one of several actions ---- */

/* The first to arrive of exponential waiting times w_i / p_i, w of unit rate, is i with probability p_i; so is the i
   for which p_i / w_i is largest, and no p is divided by, which may be 0. */
static void draw(
    const float *RESTRICT logits, const float *RESTRICT waiting_times, int64_t *RESTRICT actions,
    float *RESTRICT log_probabilities, Py_ssize_t num_rows, Py_ssize_t num_actions
) {
    for (Py_ssize_t row = 0; row < num_rows; row++, logits += num_actions, waiting_times += num_actions) {
        Py_ssize_t chosen = 0;
        for (Py_ssize_t i = 1; i < num_actions; i++)
            chosen = logits[i] > logits[chosen] ? i : chosen;
        float highest = logits[chosen], sum = 0.0f, best = 0.0f;
        for (Py_ssize_t i = 0; i < num_actions; i++) {
            float probability = exp_of_negative(logits[i] - highest); /* up to what all have in common */
            float rate = probability / waiting_times[i];
            sum += probability;
            chosen = rate > best ? i : chosen;
            best = rate > best ? rate : best;
        }
        actions[row] = chosen;
        log_probabilities[row] = logits[chosen] - highest - logf(sum);
    }
}

/* Of each row of parameters [means, logarithms of standard deviations]: means plus noise of unit variance, and the
   logarithm of the density there. That of the action as it was rounded, which is all that others will know. */
static void draw_normal(
    const float *RESTRICT parameters, const float *RESTRICT noise, float *RESTRICT actions,
    float *RESTRICT log_probabilities, Py_ssize_t num_rows, Py_ssize_t num_entries, float lowest, float highest
) {
    for (Py_ssize_t row = 0; row < num_rows; row++, noise += num_entries, actions += num_entries) {
        const float *means = parameters + 2 * row * num_entries, *log_stddevs = means + num_entries;
        float sum = 0.0f;
        for (Py_ssize_t i = 0; i < num_entries; i++) {
            float log_stddev = log_stddevs[i];
            log_stddev = log_stddev < lowest ? lowest : log_stddev; /* NaN stays NaN: somebody has to notice it */
            log_stddev = log_stddev > highest ? highest : log_stddev;
            float stddev = expf(log_stddev);
            actions[i] = means[i] + noise[i] * stddev;
            float deviation = (actions[i] - means[i]) / stddev;
            sum += 0.5f * deviation * deviation + log_stddev + 0.918938533f; /* the last is log(2 pi) / 2 */
        }
        log_probabilities[row] = -sum;
    }
}

/* ---- What Python sees; other threads go on meanwhile ---- */

static PyObject *call_activate(PyObject *module, PyObject *arguments) {
    Py_ssize_t values, count;
    int is_bfloat16, activation;
    if (!PyArg_ParseTuple(arguments, "nnpi", &values, &count, &is_bfloat16, &activation))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (is_bfloat16)
        activate_bfloat16((uint16_t *)values, count, activation);
    else
        activate_float32((float *)values, count, activation);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *call_scale(PyObject *module, PyObject *arguments) {
    Py_ssize_t values, factor, offset, result, num_rows, row_size;
    int item_size;
    float limit;
    if (!PyArg_ParseTuple(
            arguments, "nnnnnnfi", &values, &factor, &offset, &result, &num_rows, &row_size, &limit, &item_size
        ))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (item_size == sizeof(uint8_t))
        scale_bytes((uint8_t *)values, (float *)factor, (float *)offset, (float *)result, num_rows, row_size, limit);
    else if (item_size == sizeof(double))
        scale_doubles((double *)values, (float *)factor, (float *)offset, (float *)result, num_rows, row_size, limit);
    else
        scale_floats((float *)values, (float *)factor, (float *)offset, (float *)result, num_rows, row_size, limit);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *call_sum_bytes(PyObject *module, PyObject *arguments) {
    Py_ssize_t bytes, sums, squares, num_rows, row_size;
    if (!PyArg_ParseTuple(arguments, "nnnnn", &bytes, &sums, &squares, &num_rows, &row_size))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    sum_bytes((uint8_t *)bytes, (double *)sums, (double *)squares, num_rows, row_size);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *call_interleave(PyObject *module, PyObject *arguments) {
    Py_ssize_t planes, pixels, num_images, num_channels, num_pixels;
    int is_bfloat16;
    if (!PyArg_ParseTuple(arguments, "nnnnnp", &planes, &pixels, &num_images, &num_channels, &num_pixels, &is_bfloat16))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    if (is_bfloat16)
        interleave_bfloat16((float *)planes, (uint16_t *)pixels, num_images, num_channels, num_pixels);
    else
        interleave_float32((float *)planes, (float *)pixels, num_images, num_channels, num_pixels);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *call_scale_to_pixels(PyObject *module, PyObject *arguments) {
    Py_ssize_t bytes, factor, offset, pixels, num_images, num_channels, num_pixels;
    float limit;
    int is_bfloat16, status;
    if (!PyArg_ParseTuple(
            arguments, "nnnnnnnfp", &bytes, &factor, &offset, &pixels, &num_images, &num_channels, &num_pixels, &limit,
            &is_bfloat16
        ))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = scale_to_pixels(
        (uint8_t *)bytes, (float *)factor, (float *)offset, (void *)pixels, num_images, num_channels, num_pixels, limit,
        is_bfloat16
    );
    Py_END_ALLOW_THREADS;
    if (status < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *call_draw(PyObject *module, PyObject *arguments) {
    Py_ssize_t logits, waiting_times, actions, log_probabilities, num_rows, num_actions;
    if (!PyArg_ParseTuple(
            arguments, "nnnnnn", &logits, &waiting_times, &actions, &log_probabilities, &num_rows, &num_actions
        ))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    draw(
        (float *)logits, (float *)waiting_times, (int64_t *)actions, (float *)log_probabilities, num_rows, num_actions
    );
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyObject *call_draw_normal(PyObject *module, PyObject *arguments) {
    Py_ssize_t parameters, noise, actions, log_probabilities, num_rows, num_entries;
    float lowest, highest;
    if (!PyArg_ParseTuple(
            arguments, "nnnnnnff", &parameters, &noise, &actions, &log_probabilities, &num_rows, &num_entries, &lowest,
            &highest
        ))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    draw_normal(
        (float *)parameters, (float *)noise, (float *)actions, (float *)log_probabilities, num_rows, num_entries,
        lowest, highest
    );
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"draw_normal", call_draw_normal, METH_VARARGS,
     "draw_normal(parameters, noise, actions, log_probabilities, num_rows, num_entries, lowest, highest): the last are "
     "bounds of the logarithms of standard deviations."},
    {"draw", call_draw, METH_VARARGS,
     "draw(logits, waiting_times, actions, log_probabilities, num_rows, num_actions)"},
    {"activate", call_activate, METH_VARARGS, "activate(values, count, is_bfloat16, activation): in place."},
    {"scale", call_scale, METH_VARARGS,
     "scale(values, factor, offset, result, num_rows, row_size, limit, item_size): bytes, float32 or float64."},
    {"sum_bytes", call_sum_bytes, METH_VARARGS,
     "sum_bytes(bytes, sums, squares, num_rows, row_size): adds to float64 sums and squares."},
    {"interleave", call_interleave, METH_VARARGS,
     "interleave(planes, pixels, num_images, num_channels, num_pixels, is_bfloat16)"},
    {"scale_to_pixels", call_scale_to_pixels, METH_VARARGS,
     "scale_to_pixels(bytes, factor, offset, pixels, num_images, num_channels, num_pixels, limit, is_bfloat16)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernels", "Work of networks on processors; kernels.py is for use.", 0, METHODS,
};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModule_Create(&MODULE); }
