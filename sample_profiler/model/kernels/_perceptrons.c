/* Small multilayer perceptrons: all layers in one pass, for inference from weights that were laid out beforehand, and
   for training forwards and backwards. The libraries take longer to begin with a layer than we to compute it;
   docs/performance.md has the figures.

   Arrays come as addresses: perceptrons.py has checked types, sizes and layouts. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loops.h"

/* ---- Products ---- */

/* So many rows share each weight that is read, and so many outputs of each are added up at once, in registers. */
#define ROWS 4
#define WIDTH 32
#define MOST_WIDTH 512

/* ROWS rows of WIDTH outputs: bias[b] + sum over i of inputs[row * row_step + i * input_step] * weights[i * weight_step
   + b]. With steps both ways the inputs may be the transpose of what lies in memory. */
typedef struct {
    const float *inputs;
    Py_ssize_t row_step, input_step, num_inputs;
    const float *weights;
    Py_ssize_t weight_step;
    const float *bias;
    float *outputs;
    Py_ssize_t output_step;
} Product;

typedef void AddUp(const Product *product);

/* Each block keeps 4 rows x 2 vectors of sums in registers: eight independent chains hide the latency of a
   multiply-add. Vector types are explicit since compilers make scalar code of nested loops over floats, three times as
   slow, and as wide as the processor's since they take wider ones apart into single floats. */
#define ADD_UP(NAME, TARGET, VECTOR, LANES)                                                                            \
    TARGET static void NAME(const Product *product) {                                                                  \
        Product p = *product;                                                                                          \
        for (Py_ssize_t begin = 0; begin < WIDTH; begin += 2 * LANES) {                                                \
            const float *inputs = p.inputs, *weights = p.weights + begin;                                              \
            VECTOR sums[ROWS][2];                                                                                      \
            for (Py_ssize_t row = 0; row < ROWS; row++)                                                                \
                memcpy(sums[row], p.bias + begin, sizeof sums[row]);                                                   \
            for (Py_ssize_t i = 0; i < p.num_inputs; i++, inputs += p.input_step, weights += p.weight_step) {          \
                const VECTOR *of_input = (const VECTOR *)weights;                                                      \
                for (Py_ssize_t row = 0; row < ROWS; row++) {                                                          \
                    sums[row][0] += inputs[row * p.row_step] * of_input[0];                                            \
                    sums[row][1] += inputs[row * p.row_step] * of_input[1];                                            \
                }                                                                                                      \
            }                                                                                                          \
            for (Py_ssize_t row = 0; row < ROWS; row++)                                                                \
                memcpy(p.outputs + row * p.output_step + begin, sums[row], sizeof sums[row]);                          \
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

/* ---- Inference ---- */

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
                    Product product = {
                        inputs + at_row, MOST_WIDTH, 1, layer.num_inputs, weights, WIDTH, bias + begin,
                        outputs + at_row + begin, MOST_WIDTH,
                    };
                    add_up(&product);
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

/* ---- Training ---- */

/* Consecutive layers in float32. */
typedef struct {
    int64_t num_inputs, num_outputs; /* no more than MOST_WIDTH */
    int64_t activation;
    int64_t num_parts;
} TrainedLayer;

/* Some outputs of a layer, beside those of the part before; weights and gradients are as PyTorch has them. The parts of
   all layers follow each other. */
typedef struct {
    int64_t num_outputs;
    int64_t weights;    /* address of [num_outputs, num_inputs]; 0: the inputs do not matter */
    int64_t bias;       /* address of [num_outputs]; 0: none */
    int64_t of_weights; /* address of their gradient, which is overwritten; 0: not wanted */
    int64_t of_bias;    /* the same */
} Part;

/* Between layers all rows have room for whole blocks of outputs, and there are whole blocks of rows, filled up with
   zeros: what the products add up there is never seen. */
static Py_ssize_t round_up(Py_ssize_t size, Py_ssize_t block) { return (size + block - 1) / block * block; }

static float *lay_out(const float *rows, Py_ssize_t num_rows, Py_ssize_t width, float *result) {
    Py_ssize_t step = round_up(width, WIDTH), most_rows = round_up(num_rows, ROWS);
    for (Py_ssize_t row = 0; row < num_rows; row++) {
        memcpy(result + row * step, rows + row * width, (size_t)width * sizeof(float));
        memset(result + row * step + width, 0, (size_t)(step - width) * sizeof(float));
    }
    memset(result + num_rows * step, 0, (size_t)((most_rows - num_rows) * step) * sizeof(float));
    return result + most_rows * step;
}

/* Rows times columns, blocks of both at a time. */
static void multiply(AddUp *add_up, Product product, Py_ssize_t num_rows, Py_ssize_t num_columns) {
    const float *weights = product.weights, *bias = product.bias;
    float *outputs = product.outputs;
    for (Py_ssize_t row = 0; row < num_rows; row += ROWS, product.inputs += ROWS * product.row_step)
        for (Py_ssize_t begin = 0; begin < num_columns; begin += WIDTH) {
            product.weights = weights + begin;
            product.bias = bias + begin;
            product.outputs = outputs + row * product.output_step + begin;
            add_up(&product);
        }
}

static const float NO_BIAS[MOST_WIDTH];

/* Of all layers: numbers in the largest matrix of weights, and in the widest row, in whole blocks. */
typedef struct {
    Py_ssize_t area, width;
} Most;

static Most find_most(const TrainedLayer *layers, Py_ssize_t num_layers) {
    Most most = {0, 0};
    for (Py_ssize_t at = 0; at < num_layers; at++) {
        Py_ssize_t inputs = round_up(layers[at].num_inputs, WIDTH), outputs = round_up(layers[at].num_outputs, WIDTH);
        Py_ssize_t width = inputs > outputs ? inputs : outputs;
        most.area = inputs * outputs > most.area ? inputs * outputs : most.area;
        most.width = width > most.width ? width : most.width;
    }
    return most;
}

/* Room for two matrices of weights, or one and a bias, and for two of rows. */
static float *make_room(Most most, Py_ssize_t num_rows) {
    return malloc((size_t)(2 * most.area + 2 * round_up(num_rows, ROWS) * most.width) * sizeof(float));
}

PART_OF_A_LOOP void clear(float *values, Py_ssize_t count) { memset(values, 0, (size_t)count * sizeof(float)); }

/* What comes out of each layer lies behind what went into it; the last is the result. */
FOR_EACH_PROCESSOR static void forward(
    const float *RESTRICT rows, const TrainedLayer *RESTRICT layers, const Part *RESTRICT parts, float *RESTRICT values,
    float *RESTRICT room, Most most, Py_ssize_t num_rows, Py_ssize_t num_layers, int most_lanes
) {
    AddUp *add_up = choose_add_up(most_lanes);
    Py_ssize_t most_rows = round_up(num_rows, ROWS);
    float *inputs = values, *outputs = lay_out(rows, num_rows, layers[0].num_inputs, values);
    for (Py_ssize_t at = 0; at < num_layers; at++) {
        TrainedLayer layer = layers[at];
        Py_ssize_t input_step = round_up(layer.num_inputs, WIDTH), output_step = round_up(layer.num_outputs, WIDTH);
        float *transposed = room, *bias = room + most.area;
        clear(transposed, layer.num_inputs * output_step);
        clear(bias, output_step);
        for (Py_ssize_t begin = 0, number = 0; number < layer.num_parts; begin += parts[number].num_outputs, number++) {
            Part part = parts[number];
            const float *weights = (const float *)(intptr_t)part.weights;
            if (part.bias)
                memcpy(bias + begin, (const float *)(intptr_t)part.bias, (size_t)part.num_outputs * sizeof(float));
            for (Py_ssize_t i = 0; weights != NULL && i < layer.num_inputs; i++)
                for (Py_ssize_t o = 0; o < part.num_outputs; o++)
                    transposed[i * output_step + begin + o] = weights[o * layer.num_inputs + i];
        }
        parts += layer.num_parts;
        Product product = {
            inputs, input_step, 1, layer.num_inputs, transposed, output_step, bias, outputs, output_step,
        };
        multiply(add_up, product, most_rows, output_step);
        activate_numbers(outputs, num_rows * output_step, (int)layer.activation);
        inputs = outputs;
        outputs += most_rows * output_step;
    }
}

/* From the gradient of what an activation returned to that of what it was given; both are told by what it returned. */
PART_OF_A_LOOP void go_back_through(
    int activation, const float *RESTRICT outputs, float *RESTRICT gradient, Py_ssize_t count
) {
    if (activation == TANH)
        for (Py_ssize_t i = 0; i < count; i++)
            gradient[i] *= 1.0f - outputs[i] * outputs[i];
    else if (activation == RELU)
        for (Py_ssize_t i = 0; i < count; i++)
            gradient[i] = outputs[i] <= 0.0f ? 0.0f : gradient[i]; /* NaN lets it through, as PyTorch does */
    else if (activation == ELU)
        for (Py_ssize_t i = 0; i < count; i++)
            gradient[i] *= outputs[i] <= 0.0f ? outputs[i] + 1.0f : 1.0f;
}

FOR_EACH_PROCESSOR static void backward(
    const float *RESTRICT gradient, float *RESTRICT of_rows, const TrainedLayer *RESTRICT layers,
    const Part *RESTRICT parts, float *values, float *RESTRICT room, Most most, Py_ssize_t num_rows,
    Py_ssize_t num_layers, int most_lanes
) {
    AddUp *add_up = choose_add_up(most_lanes);
    Py_ssize_t most_rows = round_up(num_rows, ROWS);
    float *padded = room, *of_weights = padded + most.area;
    float *of_outputs = of_weights + most.area, *of_inputs = of_outputs + most_rows * most.width;
    float *outputs = values;
    for (Py_ssize_t at = 0; at < num_layers; at++) {
        outputs += most_rows * round_up(layers[at].num_inputs, WIDTH);
        parts += layers[at].num_parts;
    }
    lay_out(gradient, num_rows, layers[num_layers - 1].num_outputs, of_outputs);
    for (Py_ssize_t at = num_layers - 1; at >= 0; at--) {
        TrainedLayer layer = layers[at];
        Py_ssize_t input_step = round_up(layer.num_inputs, WIDTH), output_step = round_up(layer.num_outputs, WIDTH);
        float *inputs = outputs - most_rows * input_step;
        go_back_through((int)layer.activation, outputs, of_outputs, num_rows * output_step);
        Product product = {
            of_outputs, 1, output_step, num_rows, inputs, input_step, NO_BIAS, of_weights, input_step,
        };
        multiply(add_up, product, round_up(layer.num_outputs, ROWS), input_step);
        clear(padded, round_up(layer.num_outputs, ROWS) * input_step);
        parts -= layer.num_parts;
        for (Py_ssize_t begin = 0, number = 0; number < layer.num_parts; begin += parts[number].num_outputs, number++) {
            Part part = parts[number];
            if (part.of_bias) {
                float *of_bias = (float *)(intptr_t)part.of_bias;
                clear(of_bias, part.num_outputs);
                for (Py_ssize_t row = 0; row < num_rows; row++)
                    for (Py_ssize_t o = 0; o < part.num_outputs; o++)
                        of_bias[o] += of_outputs[row * output_step + begin + o];
            }
            for (Py_ssize_t o = 0; o < part.num_outputs && part.weights; o++) {
                const float *of_output = (const float *)(intptr_t)part.weights + o * layer.num_inputs;
                size_t size = (size_t)layer.num_inputs * sizeof(float);
                memcpy(padded + (begin + o) * input_step, of_output, size);
                if (part.of_weights)
                    memcpy(
                        (float *)(intptr_t)part.of_weights + o * layer.num_inputs,
                        of_weights + (begin + o) * input_step, size
                    );
            }
        }
        if (at > 0 || of_rows != NULL) {
            Product back = {
                of_outputs, output_step, 1, layer.num_outputs, padded, input_step, NO_BIAS, of_inputs, input_step,
            };
            multiply(add_up, back, most_rows, input_step);
        }
        float *swapped = of_outputs;
        of_outputs = of_inputs;
        of_inputs = swapped;
        outputs = inputs;
    }
    if (of_rows != NULL)
        for (Py_ssize_t row = 0; row < num_rows; row++)
            memcpy(
                of_rows + row * layers[0].num_inputs, of_outputs + row * round_up(layers[0].num_inputs, WIDTH),
                (size_t)layers[0].num_inputs * sizeof(float)
            );
}

/* ---- What Python sees; other threads go on meanwhile ---- */

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

static PyObject *call_forward(PyObject *module, PyObject *arguments) {
    Py_ssize_t rows, layers, parts, values, num_rows, num_layers;
    int most_lanes;
    if (!PyArg_ParseTuple(arguments, "nnnnnni", &rows, &layers, &parts, &values, &num_rows, &num_layers, &most_lanes))
        return NULL;
    Most most = find_most((TrainedLayer *)layers, num_layers);
    float *room = make_room(most, num_rows);
    if (room == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    forward(
        (float *)rows, (TrainedLayer *)layers, (Part *)parts, (float *)values, room, most, num_rows, num_layers,
        most_lanes
    );
    Py_END_ALLOW_THREADS;
    free(room);
    Py_RETURN_NONE;
}

static PyObject *call_backward(PyObject *module, PyObject *arguments) {
    Py_ssize_t gradient, of_rows, layers, parts, values, num_rows, num_layers;
    int most_lanes;
    if (!PyArg_ParseTuple(
            arguments, "nnnnnnni", &gradient, &of_rows, &layers, &parts, &values, &num_rows, &num_layers, &most_lanes
        ))
        return NULL;
    Most most = find_most((TrainedLayer *)layers, num_layers);
    float *room = make_room(most, num_rows);
    if (room == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS;
    backward(
        (float *)gradient, (float *)of_rows, (TrainedLayer *)layers, (Part *)parts, (float *)values, room, most,
        num_rows, num_layers, most_lanes
    );
    Py_END_ALLOW_THREADS;
    free(room);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"fused_mlp", call_fused_mlp, METH_VARARGS,
     "fused_mlp(rows, layers, result, num_rows, num_layers, num_results, most_lanes): of each layer six int64, the "
     "addresses of weights [outputs / WIDTH, inputs, WIDTH] and bias, num_inputs, num_outputs, activation, "
     "is_bfloat16; vectors of no more than so many floats are used."},
    {"forward", call_forward, METH_VARARGS,
     "forward(rows, layers, parts, values, num_rows, num_layers, most_lanes): of each layer four int64, num_inputs, "
     "num_outputs, activation, num_parts; of each part five, num_outputs, the addresses of weights [outputs, inputs] "
     "and bias, and those of their gradients. Values are those of rows and of each layer, one behind the other, each "
     "in whole blocks of ROWS rows and WIDTH columns."},
    {"backward", call_backward, METH_VARARGS,
     "backward(gradient, of_rows, layers, parts, values, num_rows, num_layers, most_lanes): gradient of what the last "
     "layer returned; that of rows is written to of_rows, unless it is 0."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_perceptrons", "Small multilayer perceptrons; perceptrons.py is for use.", 0, METHODS,
};

PyMODINIT_FUNC PyInit__perceptrons(void) {
    PyObject *module = PyModule_Create(&MODULE);
    if (module == NULL || PyModule_AddIntMacro(module, WIDTH) < 0 || PyModule_AddIntMacro(module, MOST_WIDTH) < 0 ||
        PyModule_AddIntMacro(module, ROWS) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
