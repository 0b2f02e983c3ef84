/* What the parts of the extension `_statistic` share: arrays, the GIL, statistics, and the functions for Python.
 *
 * Ownership: parameters are borrowed, and objects that are returned are new.
 */

#ifndef MSPROBE_STATISTIC_H
#define MSPROBE_STATISTIC_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_float_mode.h"
#include "_passes.h"

/* The content of `array.__array_struct__`: NumPy's array interface, documented and independent of its version. */
struct array {
    int two, nd;
    char kind;
    int itemsize, flags;
    Py_intptr_t *shape, *strides;
    void *data;
    PyObject *description;
};

/* Statistics of floats, and of integers that double can represent. */
struct summary {
    double max, min, mean, norm;
    int64_t nan, positive_inf, negative_inf;
};

extern PyObject *array_struct_name; /* borrowed: `__array_struct__` */

/* Return the number of elements if their memory can be processed directly, else 0. */
size_t plain_size(const struct array *a);

/* Return the dtype of an array of two-byte floats: 'e' for float16, 'E' for bfloat16 (by the name of its type), else 0. */
int letter_of_two_bytes(PyObject *array);

/* Release the GIL if n elements have at least 64 KiB; NULL if it is not released. */
PyThreadState *release_gil(const struct array *a, size_t n);
void take_gil(PyThreadState *thread);

/* Return the number of true elements; a bool is one byte, 0 or 1. */
int64_t count_true(const uint8_t *p, size_t n);

/* Compute the statistics; return whether the mean is precise, which it is not if the sum cancels too much. */
int summarize(const struct array *a, size_t n, floats_pass pass, struct summary *found, struct digest *digest);

/* Of _brief.c: the function for the monitor. */
extern const char brief_doc[];
PyObject *brief(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* Of _record.c: records of tensors. */
extern const char record_doc[], records_doc[];
PyObject *record(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *records(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* Write the statistics of n elements as JSON for other extensions, which use it through a capsule. Return the length, or 0
 * without statistics. `to` has room for 512 bytes, and the caller holds the GIL. */
size_t write_statistics(char *to, void *address, size_t n, int letter);

#endif
