/* Passes over the elements of a tensor: one function for each dtype and instruction set; see _passes.c.
 *
 * No function here uses Python, so all of them may run without the GIL.
 */

#ifndef MSPROBE_PASSES_H
#define MSPROBE_PASSES_H

#include <stddef.h>
#include <stdint.h>

#include "_digest.h"

#if !defined(__GNUC__) || !defined(__SIZEOF_INT128__)
#error "requires gcc or clang on a 64-bit machine; without this extension NumPy is used"
#endif

/* Statistics of a tensor so far; a sum and its `_low` are one number. `max` and `min` ignore NaN. */
struct floats {
    double max, min, sum, sum_low, slack, squares, squares_low;
    int64_t nan, positive_inf, negative_inf;
    struct digest digest;
};

struct int64s {
    int64_t max, min;
    __int128 sum;
    double squares, squares_low;
    struct digest digest;
};

/* Statistics for the monitor of a part of a tensor. `max` and `min` ignore NaN. */
struct brief {
    double max, min, sum, squares;
    int64_t zeros, nans;
};

/* Add the statistics of n elements. */
typedef void (*floats_pass)(const void *data, size_t n, struct floats *all);
typedef void (*int64s_pass)(const int64_t *data, size_t n, struct int64s *all);

/* The same for the monitor; elements whose magnitude is below `eps` count as zeros. */
typedef void (*brief_pass)(const void *data, size_t n, double eps, struct brief *all);

/* Return how many of n magnitudes are not below a limit. */
typedef int64_t (*at_least_pass)(const void *data, size_t n, double limit);

/* Return whether n elements are finite. */
typedef int (*finite_pass)(const void *data, size_t n);

struct passes {
    floats_pass float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32;
    int64s_pass int64;
    struct {
        brief_pass float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64;
    } brief;
    struct {
        at_least_pass float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64;
    } at_least;
    struct {
        finite_pass float16, bfloat16, float32, float64;
    } finite;
};

/* The passes in use. */
extern const struct passes *active_passes;

/* Return the passes for an instruction set, "avx2" or "plain"; NULL if the processor does not support it. */
const struct passes *passes_for(const char *instruction_set);

/* Return the L2 norm of values whose squares overflow or underflow; `peak` is the largest magnitude. */
double scaled_norm(const double *p, size_t n, double peak);

#endif
