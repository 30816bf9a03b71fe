/* Work of the networks on processors, in one pass each: observations to normalized numbers, planes of an image to
   pixels, activations, small layers, drawing actions. PyTorch takes several passes, goes number by number, has an
   expensive expm1, or takes longer to begin than to compute; docs/performance.md has the figures.

   Arrays come as addresses: kernels.py has checked types, sizes and layouts. The loops are written for the compiler
   to vectorize; where it can, it makes them for several processors at once, and the right one is taken at run time. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) /* others cannot choose so */
#if __GNUC__ >= 12
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#else
#define FOR_EACH_PROCESSOR
#endif

#if defined(_MSC_VER)
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

#if defined(__GNUC__)
/* A call would keep the loop from being vectorized. */
#define PART_OF_A_LOOP static inline __attribute__((always_inline))
#else
#define PART_OF_A_LOOP static inline
#endif

/* ---- bfloat16: the upper half of a float ---- */

PART_OF_A_LOOP float from_bfloat16(uint16_t value) {
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

PART_OF_A_LOOP uint16_t to_bfloat16(float value) { /* to the nearest, ties to even; NaN stays NaN */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)(value != value ? 0x7fc0u : rounded);
}

/* ---- ELU: x where it is positive, exp(x) - 1 where it is not ---- */

/* exp(x) = 2^k exp(r) with |r| <= ln 2 / 2, and exp(r) - 1 by its Taylor series to the seventh power: so close to 0 the
   result keeps its digits, where exp(x) - 1 would lose them. Within 2 units in the last place of float32. */
PART_OF_A_LOOP float exp_less_1(float x, float *power) { /* of -87 <= x <= 0: exp(r) - 1, and 2^k */
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: what is behind the point is rounded away */
    float k = shifted - 12582912.0f;
    float r = x - k * 0.693145752f;
    r = r - k * 1.42860677e-6f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r;
    uint32_t power_bits = (uint32_t)((int32_t)k + 127) << 23;
    memcpy(power, &power_bits, sizeof *power);
    return p;
}

PART_OF_A_LOOP float elu(float x) {
    float negative = x > -87.0f ? x : -87.0f; /* there it is -1 to the last digit; and 2^k stays a normal number */
    negative = negative < 0.0f ? negative : 0.0f;
    float power, p = exp_less_1(negative, &power);
    float below = power * p + (power - 1.0f);
    return x <= 0.0f ? below : x; /* NaN stays what it is */
}

PART_OF_A_LOOP float exp_of_negative(float x) { /* of x <= 0; what would be no normal number is 0 */
    float power, p = exp_less_1(x > -87.0f ? x : -87.0f, &power);
    float result = power * p + power;
    result = x > -87.0f ? result : 0.0f;
    return x == x ? result : x;
}

/* ---- The other activations ---- */

PART_OF_A_LOOP float relu(float x) { return x < 0.0f ? 0.0f : x; /* NaN stays what it is */ }

/* (1 - e) / (1 + e) with e = exp(-2 |x|), by e - 1, which keeps its digits where x is close to 0. */
PART_OF_A_LOOP float hyperbolic_tangent(float x) {
    float twice = -2.0f * fabsf(x);
    float power, p = exp_less_1(twice > -87.0f ? twice : -87.0f, &power); /* there it is 1 to the last digit */
    float less_1 = power * p + (power - 1.0f);
    float result = copysignf(-less_1 / (2.0f + less_1), x);
    return x == x ? result : x;
}

/* The numbers by which kernels.py names them. */
enum { NO_ACTIVATION, ELU, RELU, TANH };

#define ACTIVATE_EACH(FUNCTION)                                                                                        \
    for (Py_ssize_t i = 0; i < count; i++)                                                                             \
        values[i] = FUNCTION(values[i]);

PART_OF_A_LOOP void activate_numbers(float *values, Py_ssize_t count, int activation) {
    switch (activation) {
    case ELU:
        ACTIVATE_EACH(elu)
        break;
    case RELU:
        ACTIVATE_EACH(relu)
        break;
    case TANH:
        ACTIVATE_EACH(hyperbolic_tangent)
        break;
    default:
        break;
    }
}

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

/* ---- Small multilayer perceptrons ---- */

/* So many rows share each weight that is read, and so many outputs of each are added up at once, in registers. */
#define ROWS 4
#define WIDTH 32
#define MOST_WIDTH 512

/* So many rows go through a layer before the next: a multiple of ROWS. */
#define TILE_ROWS 16

/* Consecutive layers, each with its activation, computed in float32. A bfloat16 layer rounds its inputs, its sums and
   its activations, as where the processor multiplies bfloat16. */
typedef struct {
    int64_t weights;     /* address of [num_outputs / WIDTH, num_inputs, WIDTH]: in the order in which they are read */
    int64_t bias;        /* address of [num_outputs] */
    int64_t num_inputs;  /* no more than MOST_WIDTH */
    int64_t num_outputs; /* the same, and a multiple of WIDTH: filled up with zeros */
    int64_t activation;
    int64_t is_bfloat16; /* whether it rounds; its weights are float32 all the same */
} Layer;

typedef void AddUp(const float *inputs, const float *weights, const float *bias, float *outputs, Py_ssize_t num_inputs);

/* Each block keeps 4 rows x 2 vectors of sums in registers: eight independent chains hide the latency of a
   multiply-add. Vector types are explicit since compilers make scalar code of nested loops over floats, three times as
   slow, and as wide as the processor's since they take wider ones apart into single floats. */
#define ADD_UP(NAME, TARGET, VECTOR, LANES)                                                                            \
    TARGET static void NAME(                                                                                           \
        const float *inputs, const float *weights, const float *bias, float *outputs, Py_ssize_t num_inputs            \
    ) {                                                                                                                \
        for (Py_ssize_t begin = 0; begin < WIDTH; begin += 2 * LANES) {                                                \
            VECTOR sums[ROWS][2];                                                                                      \
            for (Py_ssize_t row = 0; row < ROWS; row++)                                                                \
                memcpy(sums[row], bias + begin, sizeof sums[row]);                                                     \
            for (Py_ssize_t i = 0; i < num_inputs; i++) {                                                              \
                const VECTOR *of_input = (const VECTOR *)(weights + i * WIDTH + begin);                                \
                for (Py_ssize_t row = 0; row < ROWS; row++) {                                                          \
                    sums[row][0] += inputs[row * MOST_WIDTH + i] * of_input[0];                                        \
                    sums[row][1] += inputs[row * MOST_WIDTH + i] * of_input[1];                                        \
                }                                                                                                      \
            }                                                                                                          \
            for (Py_ssize_t row = 0; row < ROWS; row++)                                                                \
                memcpy(outputs + row * MOST_WIDTH + begin, sums[row], sizeof sums[row]);                               \
        }                                                                                                              \
    }

#if defined(__GNUC__)
#define VECTOR_OF(LANES) __attribute__((vector_size((LANES) * sizeof(float)), aligned(sizeof(float)), may_alias))
typedef float Vector4 VECTOR_OF(4);
ADD_UP(add_up_portably, , Vector4, 4)
#else
ADD_UP(add_up_portably, , float, 1)
#endif

#if defined(__GNUC__) && defined(__x86_64__)
typedef float Vector8 VECTOR_OF(8);
typedef float Vector16 VECTOR_OF(16);
ADD_UP(add_up_8, __attribute__((target("avx2,fma"))), Vector8, 8)
ADD_UP(add_up_16, __attribute__((target("avx512f"))), Vector16, 16)

static AddUp *choose_add_up(int most_lanes) {
    if (most_lanes >= 16 && __builtin_cpu_supports("avx512f"))
        return add_up_16;
    if (most_lanes >= 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return add_up_8;
    return add_up_portably;
}
#else
static AddUp *choose_add_up(int most_lanes) { return add_up_portably; }
#endif

PART_OF_A_LOOP void round_numbers(float *values, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = from_bfloat16(to_bfloat16(values[i]));
}

/* A tile of rows goes through all layers before the next: activations between them stay in the L1 and L2 caches. */
FOR_EACH_PROCESSOR static void fused_mlp(
    const float *RESTRICT rows, const Layer *RESTRICT layers, float *RESTRICT result, Py_ssize_t num_rows,
    Py_ssize_t num_layers, Py_ssize_t num_results, int most_lanes
) {
    AddUp *add_up = choose_add_up(most_lanes);
    float between[2][TILE_ROWS * MOST_WIDTH];
    for (Py_ssize_t first = 0; first < num_rows; first += TILE_ROWS) {
        Py_ssize_t size = num_rows - first < TILE_ROWS ? num_rows - first : TILE_ROWS, row = 0;
        float *inputs = between[0], *outputs = between[1];
        for (; row < size; row++)
            memcpy(
                inputs + row * MOST_WIDTH, rows + (first + row) * layers[0].num_inputs,
                (size_t)layers[0].num_inputs * sizeof(float)
            );
        for (; row % ROWS; row++) /* padding: computed, never read */
            memset(inputs + row * MOST_WIDTH, 0, (size_t)layers[0].num_inputs * sizeof(float));
        for (Py_ssize_t at = 0; at < num_layers; at++) {
            Layer layer = layers[at];
            const float *weights = (const float *)(intptr_t)layer.weights;
            const float *bias = (const float *)(intptr_t)layer.bias;
            for (row = 0; row < size && layer.is_bfloat16; row++)
                round_numbers(inputs + row * MOST_WIDTH, layer.num_inputs);
            for (Py_ssize_t begin = 0; begin < layer.num_outputs; begin += WIDTH, weights += layer.num_inputs * WIDTH)
                for (row = 0; row < size; row += ROWS) {
                    Py_ssize_t at_row = row * MOST_WIDTH;
                    add_up(inputs + at_row, weights, bias + begin, outputs + at_row + begin, layer.num_inputs);
                }
            for (row = 0; row < size; row++) {
                float *of_row = outputs + row * MOST_WIDTH;
                if (layer.is_bfloat16)
                    round_numbers(of_row, layer.num_outputs);
                activate_numbers(of_row, layer.num_outputs, (int)layer.activation);
                if (layer.is_bfloat16)
                    round_numbers(of_row, layer.num_outputs);
            }
            float *swapped = inputs;
            inputs = outputs;
            outputs = swapped;
        }
        for (row = 0; row < size; row++)
            memcpy(
                result + (first + row) * num_results, inputs + row * MOST_WIDTH, (size_t)num_results * sizeof(float)
            );
    }
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

static PyObject *call_fused_mlp(PyObject *module, PyObject *arguments) {
    Py_ssize_t rows, layers, result, num_rows, num_layers, num_results;
    int most_lanes;
    if (!PyArg_ParseTuple(
            arguments, "nnnnnni", &rows, &layers, &result, &num_rows, &num_layers, &num_results, &most_lanes
        ))
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    fused_mlp((float *)rows, (Layer *)layers, (float *)result, num_rows, num_layers, num_results, most_lanes);
    Py_END_ALLOW_THREADS;
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
    {"fused_mlp", call_fused_mlp, METH_VARARGS,
     "fused_mlp(rows, layers, result, num_rows, num_layers, num_results, most_lanes): of each layer six int64, the "
     "addresses of weights [outputs / WIDTH, inputs, WIDTH] and bias, num_inputs, num_outputs, activation, "
     "is_bfloat16; vectors of no more than so many floats are used."},
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

PyMODINIT_FUNC PyInit__kernels(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL || PyModule_AddIntMacro(module, WIDTH) < 0 || PyModule_AddIntMacro(module, MOST_WIDTH) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
