/* Statistics of a tensor in one pass over its data: combination of blocks, and the interface to Python.
 *
 * The loops are in `_statistic_pass.h` and `_statistic_block.h`, the pass of the monitor in `_brief*.h`, records of tensors
 * in `_record.h`, CRC-32C in `_digest.h`. Arrays are read through NumPy's documented `__array_struct__`, independent of
 * NumPy's headers and version.
 *
 * Summation: each block of n elements has an anchor, a power of two above 2 n max|x|. When an element is added to a sum
 * that starts at the anchor, the digits below the last digit of the anchor are lost. This loss is computed exactly
 * (Dekker's fast two-sum) and summed separately. A block thus has two sums: `high`, without error, and `low`, at most
 * n 2^-53 anchor, with ordinary rounding, which together have about twice the precision of double. The remaining error is
 * bounded (`slack`); if the bound is too large relative to the sum, Python computes the mean exactly.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if !defined(__GNUC__) || !defined(__SIZEOF_INT128__)
#error "requires gcc or clang on a 64-bit machine; without this extension NumPy is used"
#endif
#if defined(__FAST_MATH__) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "requires arithmetic in exactly float and double; without this extension NumPy is used"
#endif

#define INLINE static inline __attribute__((always_inline)) /* to use the instruction set of the caller */

enum { BLOCK = 16384 }; /* bytes: half of a first-level cache */
enum { LOOK = -1 };     /* determine from the elements whether they are similar */

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include "_digest.h"

/* Sums of one block; `cut`: whether `low` is not zero. */
struct sums {
    double high, low, squares;
    int cut;
};

/* Statistics of a tensor so far; a sum and its `_low` are one number. `top` and `bottom` ignore NaN. */
struct floats {
    double top, bottom, sum, sum_low, slack, squares, squares_low;
    int64_t nan, up, down;
    struct digest digest;
};

struct int64s {
    int64_t top, bottom;
    __int128 sum;
    double squares, squares_low;
    struct digest digest;
};

typedef void (*floats_pass)(const void *, size_t, struct floats *);

/* Statistics for the monitor of a part of a tensor. `top` and `bottom` ignore NaN. */
struct brief {
    double top, bottom, sum, squares;
    int64_t zeros, nans;
};

typedef void (*brief_pass)(const void *, size_t, double, struct brief *);

/* How many magnitudes are not below a limit. */
typedef int64_t (*at_least_pass)(const void *, size_t, double);

struct passes {
    floats_pass float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32;
    void (*int64)(const int64_t *, size_t, struct int64s *);
    struct {
        brief_pass float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64;
    } brief;
    struct {
        at_least_pass float16, bfloat16, float32, float64, int8, uint8, int16, uint16, int32, uint32, int64, uint64;
    } at_least;
    struct {
        int (*float16)(const void *, size_t), (*bfloat16)(const void *, size_t), (*float32)(const void *, size_t),
            (*float64)(const void *, size_t);
    } finite;
};

/* The limit below which a magnitude counts as zero: rounded to the type, but not to zero. */
INLINE double limit_double(double eps) { return eps; }
INLINE float limit_float(double eps)
{
    return eps > 0 && (float)eps == 0 ? FLT_TRUE_MIN : (float)eps;
}

/* The least number of a type that is not below a limit, so that no magnitude of the type stands between the two. */
INLINE double least_double(double limit) { return limit; }
INLINE float least_float(double limit)
{
    float near = (float)limit;
    return (double)near < limit ? nextafterf(near, INFINITY) : near;
}

/* Return the anchor of a block: 0 if all elements are zero, -1 if one is infinite or all are NaN. It may be infinite. */
INLINE double anchor_of(double top, double bottom, size_t n)
{
    union { double value; uint64_t bits; } peak = {fabs(top > -bottom ? top : -bottom)};
    uint64_t exponent = peak.bits >> 52;
    if (exponent == 2047 || peak.bits == 0)
        return exponent ? -1 : 0;
    exponent = (exponent ? exponent : 1) + 66 - (uint64_t)__builtin_clzll(n);
    peak.bits = (exponent < 2047 ? exponent : 2047) << 52;
    return peak.value;
}

/* Add x to *sum + *low, with an error only in *low (Neumaier). */
INLINE void accumulate(double *sum, double *low, double x)
{
    double next = *sum + x;
    *low += fabs(*sum) >= fabs(x) ? (*sum - next) + x : (x - next) + *sum;
    *sum = next;
}

/* Add the sums of a block of n elements to its tensor. `low` was summed in chains of at most `chain`. */
INLINE void gather(struct floats *all, const struct sums *found, double anchor, size_t n, size_t chain)
{
    accumulate(&all->sum, &all->sum_low, found->high);
    all->slack += fabs(all->sum_low) * 0x1p-52;
    if (found->cut) {
        all->sum_low += found->low;
        all->slack += fabs(all->sum_low) * 0x1p-52 + anchor * (double)n * (double)chain * 0x1p-106;
    }
    if (found->squares <= DBL_MAX && all->squares <= DBL_MAX)
        accumulate(&all->squares, &all->squares_low, found->squares);
    else
        all->squares = INFINITY, all->squares_low = 0;
}

#if defined(__x86_64__)
#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define VECTOR 32
#define STRANDS GO_ON
#define MAX_float(x, best) _mm256_max_ps(x, best)
#define MIN_float(x, best) _mm256_min_ps(x, best)
#define MAX_double(x, best) _mm256_max_pd(x, best)
#define MIN_double(x, best) _mm256_min_pd(x, best)
#define MIN_int(x, best) _mm256_min_epi32((__m256i)(x), (__m256i)(best))
#define WIDEN(from) _mm256_cvtps_pd(_mm_loadu_ps(from))
#define HALVES(from, to) _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#include "_statistic_pass.h"

#define MAX_float(x, best) _mm_max_ps(x, best)
#define MIN_float(x, best) _mm_min_ps(x, best)
#define MAX_double(x, best) _mm_max_pd(x, best)
#define MIN_double(x, best) _mm_min_pd(x, best)
#define WIDEN(from) _mm_cvtps_pd(_mm_castsi128_ps(_mm_loadl_epi64((const __m128i *)(from))))
#endif

#define NAME(x) x##_plain
#define TARGET
#define VECTOR 16
#include "_statistic_pass.h"

static const struct passes *chosen = &passes_plain;

/* Return the passes for an instruction set; NULL if the processor does not support it. */
static const struct passes *passes_of(const char *flavour)
{
#if defined(__x86_64__)
    if (strcmp(flavour, "avx2") == 0 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &passes_avx2; /* processors with AVX2 have F16C */
#endif
    return strcmp(flavour, "plain") == 0 ? &passes_plain : NULL;
}

/* Frameworks may set a thread to flush subnormals to zero, which would change statistics. */
#if defined(__x86_64__)
typedef unsigned mode;
static mode exact_mode(void)
{
    mode before = _mm_getcsr();
    _mm_setcsr(0x1f80);
    return before;
}
static void back_to(mode before) { _mm_setcsr(before); }
#elif defined(__aarch64__)
typedef uint64_t mode;
static void back_to(mode before) { __asm__ volatile("msr fpcr, %0" : : "r"(before) : "memory"); }
static mode exact_mode(void)
{
    mode before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before) : : "memory");
    back_to(0);
    return before;
}
#else
typedef int mode;
static mode exact_mode(void) { return 0; }
static void back_to(mode before) { (void)before; }
#endif

/* Return the L2 norm of values whose squares overflow or underflow, scaled by a power of two. */
static double scaled_norm(const double *p, size_t n, double peak)
{
    int exponent;
    double sum = 0, low = 0;
    frexp(peak, &exponent);
    exponent = exponent > 1020 ? 1020 : exponent < -1020 ? -1020 : exponent;
    double scale = ldexp(1.0, -exponent);
    for (size_t i = 0; i < n;) {
        double square = 0;
        for (size_t end = n - i < 1024 ? n : i + 1024; i < end; i++)
            square += (p[i] * scale) * (p[i] * scale);
        accumulate(&sum, &low, square);
    }
    return sqrt(sum + low) / scale;
}

/* The content of `array.__array_struct__`: NumPy's array interface. */
struct array {
    int two, nd;
    char kind;
    int itemsize, flags;
    Py_intptr_t *shape, *strides;
    void *data;
    PyObject *description;
};

enum { C_ORDER = 0x1, FORTRAN_ORDER = 0x2, ALIGNED = 0x100, NATIVE = 0x200 };

/* Return the number of elements if their memory can be processed directly, else 0. */
static size_t plain_size(const struct array *a)
{
    size_t n = 1;
    if (!(a->flags & (C_ORDER | FORTRAN_ORDER)) || !(a->flags & ALIGNED) || !(a->flags & NATIVE))
        return 0;
    for (int i = 0; i < a->nd; i++)
        n *= (size_t)a->shape[i];
    return n;
}

/* Return the dtype of an array of two-byte floats: 'e' for float16, 'E' for bfloat16 (by the name of its type), else 0. */
static int letter_of_two_bytes(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL;
    int letter = 0;
    if (type && PyType_Check(type)) {
        const char *name = ((PyTypeObject *)type)->tp_name, *dot = strrchr(name, '.');
        name = dot ? dot + 1 : name;
        letter = strcmp(name, "float16") == 0 ? 'e' : strcmp(name, "bfloat16") == 0 ? 'E' : 0;
    }
    Py_XDECREF(dtype);
    Py_XDECREF(type);
    PyErr_Clear(); /* an object with this interface may have no dtype */
    return letter;
}

static floats_pass pass_for_two_bytes(PyObject *array)
{
    int letter = letter_of_two_bytes(array);
    return letter == 'e' ? chosen->float16 : letter == 'E' ? chosen->bfloat16 : NULL;
}

static floats_pass pass_for(const struct array *a, PyObject *array)
{
    if (a->kind == 'f' || a->kind == 'V')
        return a->itemsize == 2   ? pass_for_two_bytes(array)
               : a->kind == 'V'   ? NULL
               : a->itemsize == 4 ? chosen->float32
               : a->itemsize == 8 ? chosen->float64
                                  : NULL;
    if (a->kind == 'i')
        return a->itemsize == 4   ? chosen->int32
               : a->itemsize == 2 ? chosen->int16
               : a->itemsize == 1 ? chosen->int8
                                  : NULL;
    if (a->kind == 'u')
        return a->itemsize == 4   ? chosen->uint32
               : a->itemsize == 2 ? chosen->uint16
               : a->itemsize == 1 ? chosen->uint8
                                  : NULL;
    return NULL;
}

static at_least_pass at_least_pass_for(const struct array *a, PyObject *array)
{
    int letter = 0;
    switch (a->kind << 8 | a->itemsize) {
    case 'f' << 8 | 2:
    case 'V' << 8 | 2:
        letter = letter_of_two_bytes(array);
        return letter == 'e' ? chosen->at_least.float16 : letter == 'E' ? chosen->at_least.bfloat16 : NULL;
    case 'f' << 8 | 4: return chosen->at_least.float32;
    case 'f' << 8 | 8: return chosen->at_least.float64;
    case 'i' << 8 | 1: return chosen->at_least.int8;
    case 'i' << 8 | 2: return chosen->at_least.int16;
    case 'i' << 8 | 4: return chosen->at_least.int32;
    case 'i' << 8 | 8: return chosen->at_least.int64;
    case 'u' << 8 | 1: return chosen->at_least.uint8;
    case 'u' << 8 | 2: return chosen->at_least.uint16;
    case 'u' << 8 | 4: return chosen->at_least.uint32;
    case 'u' << 8 | 8: return chosen->at_least.uint64;
    default: return NULL;
    }
}

/* Release the GIL for arrays of at least 64 KiB. */
static PyThreadState *release(const struct array *a, size_t n)
{
    return n * (size_t)a->itemsize >= 1 << 16 ? PyEval_SaveThread() : NULL;
}

static void take_back(PyThreadState *thread)
{
    if (thread)
        PyEval_RestoreThread(thread);
}

/* Return the number of true elements; a bool is one byte, 0 or 1. */
static int64_t count_true(const uint8_t *p, size_t n)
{
    int64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += p[i] != 0;
    return total;
}

static PyObject *of_bools(const uint8_t *p, size_t n)
{
    int64_t count = count_true(p, n);
    return Py_BuildValue("NNOOiiiL", PyBool_FromLong(count > 0), PyBool_FromLong((size_t)count == n), Py_None, Py_None, 0,
                         0, 0, (long long)count);
}

static PyObject *of_int64s(const struct array *a, size_t n)
{
    struct int64s all = {.top = INT64_MIN, .bottom = INT64_MAX};
    PyThreadState *thread = release(a, n);
    chosen->int64(a->data, n, &all);
    take_back(thread);
    return Py_BuildValue("LLddiii", (long long)all.top, (long long)all.bottom, (double)all.sum / (double)n,
                         sqrt(all.squares + all.squares_low), 0, 0, 0);
}

/* Statistics of floats, and of integers that fit into double. */
struct summary {
    double top, bottom, mean, norm;
    int64_t nan, up, down;
};

/* Compute the statistics; return whether the mean is precise, which it is not if the sum cancels too much. */
static int summarise(const struct array *a, size_t n, floats_pass pass, struct summary *found, struct digest *digest)
{
    struct floats all = {.top = -INFINITY, .bottom = INFINITY, .digest = *digest};
    PyThreadState *thread = release(a, n);
    pass(a->data, n, &all);
    double peak = fmax(all.top, -all.bottom), norm = sqrt(all.squares + all.squares_low);
    int finite = !all.nan && !all.up && !all.down, is_float = a->kind != 'i' && a->kind != 'u';
    if (is_float && finite && peak != 0 && !(peak > 0x1p-450 && peak < 0x1p480)) /* only float64 gets there */
        norm = scaled_norm(a->data, n, peak);
    take_back(thread);

    double sum = all.sum + all.sum_low, mean = sum / (double)n;
    all.top += 0.0, all.bottom += 0.0; /* converts -0.0 to 0.0 */
    if (all.nan)
        all.top = all.bottom = mean = norm = NAN;
    else if (!finite)
        mean = all.up && all.down ? NAN : all.up ? INFINITY : -INFINITY, norm = INFINITY;
    *digest = all.digest;
    *found = (struct summary){all.top, all.bottom, mean, norm, all.nan, all.up, all.down};
    return !is_float || !finite || all.slack <= 0x1p-42 * fabs(sum);
}

static PyObject *of_floats(const struct array *a, size_t n, floats_pass pass, PyObject *array, PyObject *exact_mean)
{
    struct summary s;
    struct digest none = {.is_wanted = 0};
    int certain = summarise(a, n, pass, &s, &none);
    if (a->kind == 'i' || a->kind == 'u')
        return Py_BuildValue("NNddiii", PyLong_FromDouble(s.top), PyLong_FromDouble(s.bottom), s.mean, s.norm, 0, 0, 0);
    if (!certain)
        return Py_BuildValue("ddNdiii", s.top, s.bottom, PyObject_CallFunctionObjArgs(exact_mean, array, NULL), s.norm,
                             0, 0, 0);
    return Py_BuildValue("ddddLLL", s.top, s.bottom, s.mean, s.norm, (long long)s.nan, (long long)s.up,
                         (long long)s.down);
}

static PyObject *array_struct; /* the name of the attribute */

PyDoc_STRVAR(scan_doc, "scan(array, exact_mean)\n--\n\n"
                       "Return the values of a Statistic; None for an array whose memory cannot be processed directly.\n\n"
                       "`exact_mean(array)` is called if a sum cancels so much that the mean is not precise.");

static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "scan() takes an array and a function, not %zd arguments", count);
    PyObject *capsule = PyObject_GetAttr(args[0], array_struct);
    const struct array *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    PyObject *found = NULL;
    if (a != NULL) {
        mode before = exact_mode();
        size_t n = plain_size(a);
        floats_pass pass = n ? pass_for(a, args[0]) : NULL;
        if (pass)
            found = of_floats(a, n, pass, args[0], args[1]);
        else if (n && a->kind == 'i' && a->itemsize == 8)
            found = of_int64s(a, n);
        else if (n && a->kind == 'b')
            found = of_bools(a->data, n);
        else
            found = Py_NewRef(Py_None);
        back_to(before);
    }
    Py_XDECREF(capsule);
    return found;
}

PyDoc_STRVAR(at_least_doc, "at_least(array, limit)\n--\n\n"
                           "How many elements have a magnitude of at least `limit`, which is positive; a NaN has none. None for an\n"
                           "array that the passes cannot run over as it lies, also for one of bool.");

static PyObject *at_least(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "at_least() takes an array and a number, not %zd arguments", count);
    double limit = PyFloat_AsDouble(args[1]);
    PyObject *capsule = PyErr_Occurred() ? NULL : PyObject_GetAttr(args[0], array_struct); /* new */
    const struct array *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;         /* borrowed */
    PyObject *found = NULL;                                                                 /* new */
    if (a == NULL)
        goto done;
    at_least_pass pass = at_least_pass_for(a, args[0]);
    size_t n = pass ? plain_size(a) : 0;
    if (n) {
        mode before = exact_mode();
        PyThreadState *thread = release(a, n);
        int64_t number = pass(a->data, n, limit);
        take_back(thread);
        back_to(before);
        found = PyLong_FromLongLong(number);
    } else
        found = Py_NewRef(Py_None);
done:
    Py_XDECREF(capsule);
    return found;
}

PyDoc_STRVAR(finite_doc, "finite(address, size, letter)\n--\n\n"
                         "Return whether `size` contiguous floats at `address` are finite; None for an unknown dtype.\n\n"
                         "`letter` is NumPy's character code, or 'E' for bfloat16. The caller keeps the memory alive.");

static PyObject *is_finite(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "finite() takes 3 arguments, not %zd", count);
    void *address = PyLong_AsVoidPtr(args[0]);
    size_t n = PyLong_AsSize_t(args[1]);
    const char *letter = PyUnicode_AsUTF8(args[2]);
    if (PyErr_Occurred())
        return NULL;
    int (*pass)(const void *, size_t) = NULL;
    struct array a = {.itemsize = 2};
    switch (*letter) {
    case 'e': pass = chosen->finite.float16; break;
    case 'E': pass = chosen->finite.bfloat16; break;
    case 'f': pass = chosen->finite.float32, a.itemsize = 4; break;
    case 'd': pass = chosen->finite.float64, a.itemsize = 8; break;
    }
    if (!pass || !address || (uintptr_t)address % (size_t)a.itemsize)
        Py_RETURN_NONE;
    PyThreadState *thread = release(&a, n);
    int found = pass(address, n);
    take_back(thread);
    return PyBool_FromLong(found);
}

PyDoc_STRVAR(memory_doc, "memory(address, size)\n--\n\n"
                         "Return a read-only memoryview of `size` bytes at `address`. The caller keeps the memory alive while it\n"
                         "is used.");

static PyObject *memory(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "memory() takes 2 arguments, not %zd", count);
    void *address = PyLong_AsVoidPtr(args[0]);
    Py_ssize_t size = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred())
        return NULL;
    if (!address || size < 0)
        return PyErr_Format(PyExc_ValueError, "no memory of %zd bytes at %p", size, address);
    return PyMemoryView_FromMemory(address, size, PyBUF_READ);
}

PyDoc_STRVAR(crc32c_doc, "crc32c(buffer, value)\n--\n\n"
                         "Return the CRC-32C of the bytes of a C-contiguous buffer, continued from `value`.");

static PyObject *crc32c(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer view;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "crc32c() takes a buffer and a number, not %zd arguments", count);
    unsigned long value = PyLong_AsUnsignedLong(args[1]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) != 0)
        return NULL;
    PyThreadState *thread = view.len >= 1 << 16 ? PyEval_SaveThread() : NULL;
    uint32_t found = ~crc32c_state(~(uint32_t)value, view.buf, (size_t)view.len);
    take_back(thread);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(found);
}

PyDoc_STRVAR(choose_doc, "choose(flavour)\n--\n\n"
                         "Use the passes for an instruction set, 'avx2' or 'plain', from now on.\n\n"
                         "With 'plain', CRC-32C does not use the instruction of the processor either. Return False if the\n"
                         "processor does not support it. For tests: the best one is selected at import.");

static PyObject *choose(PyObject *Py_UNUSED(module), PyObject *flavour)
{
    const char *name = PyUnicode_AsUTF8(flavour);
    if (name == NULL)
        return NULL;
    const struct passes *found = passes_of(name);
    chosen = found ? found : chosen;
    if (found)
        crc32c_state = strcmp(name, "plain") != 0 && has_instruction() ? crc32c_quick : crc32c_plain;
    return PyBool_FromLong(found != NULL);
}

#include "_schema.h"
#include "_brief.h"
#include "_record.h"

static PyMethodDef METHODS[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL, record_doc},
    {"records", (PyCFunction)(void (*)(void))records, METH_FASTCALL, records_doc},
    {"brief", (PyCFunction)(void (*)(void))brief, METH_FASTCALL, brief_doc},
    {"crc32c", (PyCFunction)(void (*)(void))crc32c, METH_FASTCALL, crc32c_doc},
    {"at_least", (PyCFunction)(void (*)(void))at_least, METH_FASTCALL, at_least_doc},
    {"finite", (PyCFunction)(void (*)(void))is_finite, METH_FASTCALL, finite_doc},
    {"memory", (PyCFunction)(void (*)(void))memory, METH_FASTCALL, memory_doc},
    {"choose", choose, METH_O, choose_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_statistic",
    .m_doc = "The statistics of a tensor in one pass; see statistic.py.",
    .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__statistic(void)
{
    const struct passes *best = passes_of("avx2");
    chosen = best ? best : &passes_plain;
    make_crc32c_tables();
    crc32c_state = has_instruction() ? crc32c_quick : crc32c_plain;
    array_struct = PyUnicode_InternFromString("__array_struct__");
    PyObject *module = array_struct ? PyModule_Create(&MODULE) : NULL;
    PyObject *capsule = module ? PyCapsule_New((void *)write_statistics, WRITE_STATISTICS, NULL) : NULL;
    if (module && (!capsule || PyModule_AddObjectRef(module, strrchr(WRITE_STATISTICS, '.') + 1, capsule) < 0))
        Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
}
