/* Statistics for the monitor of many tensors in one call; see `brief.py`.
 *
 * Tensors are split into parts of a fixed size, which threads process in any order. The sums of the parts are added in the
 * order of the tensor, so that the results do not depend on the number of threads.
 */

#include "_statistic.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "_schema.h"

enum { PART = 1 << 18 };                 /* elements of a part: 1 MiB of float */
enum { MAX_THREADS = 16 };
enum { BYTES_WORTH_A_THREAD = 1 << 21 }; /* minimum for more than one thread */

struct tensor {
    PyObject *capsule; /* new: keeps the array alive */
    const char *data;
    size_t size, itemsize;
    brief_pass pass;
    int is_double;
};

struct part {
    const struct tensor *of;
    size_t start;
    struct brief found;
};

struct work {
    struct part *parts;
    size_t count;
    double eps;
    atomic_size_t next;
};

static void *take_parts(void *from)
{
    struct work *work = from;
    float_mode before = begin_exact_mode();
    for (size_t at; (at = atomic_fetch_add(&work->next, 1)) < work->count;) {
        struct part *part = &work->parts[at];
        size_t left = part->of->size - part->start;
        struct brief found = {.max = -INFINITY, .min = INFINITY};
        part->of->pass(part->of->data + part->start * part->of->itemsize, left < PART ? left : PART, work->eps, &found);
        part->found = found;
    }
    end_exact_mode(before);
    return NULL;
}

static void take_all_parts(struct work *work, int threads)
{
    pthread_t others[MAX_THREADS];
    int started = 0;
    for (; started < threads - 1 && started < MAX_THREADS; started++)
        if (pthread_create(&others[started], NULL, take_parts, work) != 0)
            break; /* continue with fewer threads */
    take_parts(work);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}

/* Write norm, min, max, zeros, nans, mean of a tensor from its parts; NaN, except nans, for an empty tensor. */
static void write_row(double *row, const struct tensor *tensor, const struct part *parts)
{
    struct brief all = {.max = -INFINITY, .min = INFINITY};
    for (size_t start = 0; start < tensor->size; start += PART, parts++) {
        const struct brief *more = &parts->found;
        all.max = more->max > all.max ? more->max : all.max;
        all.min = more->min < all.min ? more->min : all.min;
        all.sum += more->sum, all.squares += more->squares, all.zeros += more->zeros, all.nans += more->nans;
    }
    double n = (double)tensor->size, peak = fmax(all.max, -all.min), norm = sqrt(all.squares);
    if (tensor->is_double && !all.nans && peak != 0 && isfinite(peak) && !(peak > 0x1p-450 && peak < 0x1p480))
        norm = scaled_norm((const double *)tensor->data, tensor->size, peak);
    int none = all.nans || !tensor->size;
    row[COLUMN_NORM] = none ? NAN : norm;
    row[COLUMN_MIN] = none ? NAN : all.min + 0.0; /* takes the sign from a zero */
    row[COLUMN_MAX] = none ? NAN : all.max + 0.0;
    row[COLUMN_ZEROS] = tensor->size ? (double)all.zeros / n : NAN;
    row[COLUMN_NANS] = (double)all.nans;
    row[COLUMN_MEAN] = none ? NAN : all.sum / n;
}

static brief_pass brief_pass_for(const struct array *a, PyObject *array)
{
    if ((a->kind == 'f' || a->kind == 'V') && a->itemsize == 2) {
        int letter = letter_of_two_bytes(array);
        return letter == 'e' ? active_passes->brief.float16 : letter == 'E' ? active_passes->brief.bfloat16 : NULL;
    }
    switch (a->kind << 8 | a->itemsize) {
    case 'f' << 8 | 4: return active_passes->brief.float32;
    case 'f' << 8 | 8: return active_passes->brief.float64;
    case 'i' << 8 | 1: return active_passes->brief.int8;
    case 'i' << 8 | 2: return active_passes->brief.int16;
    case 'i' << 8 | 4: return active_passes->brief.int32;
    case 'i' << 8 | 8: return active_passes->brief.int64;
    case 'b' << 8 | 1: /* one byte that is 0 or 1 */
    case 'u' << 8 | 1: return active_passes->brief.uint8;
    case 'u' << 8 | 2: return active_passes->brief.uint16;
    case 'u' << 8 | 4: return active_passes->brief.uint32;
    case 'u' << 8 | 8: return active_passes->brief.uint64;
    default: return NULL;
    }
}

/* Prepare an array: return 1; 0 if its memory cannot be processed directly; -1 with an exception. */
static int prepare(struct tensor *tensor, PyObject *array)
{
    tensor->capsule = PyObject_GetAttr(array, array_struct_name); /* released with the tensor */
    const struct array *a = tensor->capsule ? PyCapsule_GetPointer(tensor->capsule, NULL) : NULL; /* borrowed */
    if (a == NULL)
        return -1;
    brief_pass pass = brief_pass_for(a, array);
    size_t n = pass ? plain_size(a) : 0;
    if (n == 0) /* empty arrays too, which Python handles */
        return 0;
    tensor->data = a->data, tensor->size = n, tensor->itemsize = (size_t)a->itemsize, tensor->pass = pass;
    tensor->is_double = a->kind == 'f' && a->itemsize == 8;
    return 1;
}

/* Allocate all parts of all tensors; return NULL without memory. Without tensors, one unused part is allocated. */
static struct part *split(const struct tensor *tensors, size_t count, struct work *work, size_t *bytes)
{
    size_t needed = 0;
    for (size_t i = 0; i < count; i++)
        needed += (tensors[i].size + PART - 1) / PART;
    work->count = 0, work->parts = PyMem_Malloc((needed + 1) * sizeof *work->parts);
    for (size_t i = 0; work->parts && i < count; i++) {
        *bytes += tensors[i].size * tensors[i].itemsize;
        for (size_t start = 0; start < tensors[i].size; start += PART)
            work->parts[work->count++] = (struct part){.of = &tensors[i], .start = start};
    }
    return work->parts;
}

static int measure_tensors(const struct tensor *tensors, size_t count, double eps, int threads, double *rows)
{
    struct work work = {.eps = eps};
    size_t bytes = 0;
    if (!split(tensors, count, &work, &bytes)) {
        PyErr_NoMemory();
        return 0;
    }
    PyThreadState *thread = bytes >= 1 << 16 ? PyEval_SaveThread() : NULL;
    take_all_parts(&work, bytes < BYTES_WORTH_A_THREAD ? 1 : threads);
    float_mode before = begin_exact_mode();
    const struct part *parts = work.parts;
    for (size_t i = 0; i < count; i++) {
        write_row(rows + COLUMNS * i, &tensors[i], parts);
        parts += (tensors[i].size + PART - 1) / PART;
    }
    end_exact_mode(before);
    take_gil(thread);
    PyMem_Free(work.parts);
    return 1;
}

const char brief_doc[] = PyDoc_STR(
    "brief(arrays, eps, threads, address)\n--\n\n"
    "Write a row of doubles for each array of a list to `address`: norm, min, max, zeros, nans, mean.\n\n"
    "Return the indices of arrays whose memory cannot be processed directly; their rows are those of an\n"
    "empty array.");

PyObject *brief(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    PyObject *refused = NULL;      /* new */
    struct tensor *tensors = NULL; /* owned */
    size_t count = 0;
    int failed = 1;
    if (given != 4 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "brief() takes a list and 3 more arguments");
        goto done;
    }
    count = (size_t)PyList_GET_SIZE(args[0]);
    double eps = PyFloat_AsDouble(args[1]);
    long threads = PyLong_AsLong(args[2]);
    double *rows = PyLong_AsVoidPtr(args[3]); /* borrowed */
    if (PyErr_Occurred())
        goto done;
    tensors = PyMem_Calloc(count + 1, sizeof *tensors);
    refused = PyList_New(0);
    failed = !tensors || !refused;
    for (size_t i = 0; !failed && i < count && i < (size_t)PyList_GET_SIZE(args[0]); i++) {
        int found = prepare(&tensors[i], PyList_GET_ITEM(args[0], (Py_ssize_t)i));
        failed = found < 0;
        if (found == 0) {
            PyObject *index = PyLong_FromSize_t(i); /* new */
            failed = !index || PyList_Append(refused, index) < 0;
            Py_XDECREF(index);
        }
    }
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    failed = failed || !measure_tensors(tensors, count, eps, (int)threads, rows);
done:
    for (size_t i = 0; tensors && i < count; i++)
        Py_XDECREF(tensors[i].capsule);
    PyMem_Free(tensors);
    if (failed) {
        Py_CLEAR(refused);
        if (!PyErr_Occurred())
            PyErr_NoMemory();
    }
    return refused;
}
