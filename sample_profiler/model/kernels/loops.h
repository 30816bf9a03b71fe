/* What loops of ours have in common: processors that they are made for, bfloat16, activations. */

#ifndef SAMPLE_PROFILER_LOOPS_H
#define SAMPLE_PROFILER_LOOPS_H

#include <Python.h>
#include <math.h>
#include <stdint.h>
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

#endif
