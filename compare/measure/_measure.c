/* Measures of one block of two tensors in one pass: the loop over its chunks, and the interface to Python.
 *
 * The loops over elements are in two templates, which are compiled for each instruction set: `_measure_sweep.inc`, and
 * `_measure_chunk.inc` for each type that elements are converted to. The NumPy passes of `block.py` compute the same and
 * define each number. Blocks are read through the buffer protocol, independent of NumPy's headers and version.
 *
 * Ownership: parameters are borrowed, and objects that are returned are new.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "_float_mode.h"

#if !defined(__GNUC__) || !(defined(__x86_64__) || defined(__aarch64__))
#error "requires gcc or clang on a 64-bit machine; without this extension NumPy is used"
#endif
#if defined(__FAST_MATH__) || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "requires arithmetic in exactly float and double; without this extension NumPy is used"
#endif

#define INLINE static inline __attribute__((always_inline)) /* to use the instruction set of the caller */
#define EPSILON 0x1p-52
#define EXPONENT 0x7ff0000000000000

enum { CHUNK = 512 }; /* elements: both sides and their differences fit into a first-level cache */

/* Tolerances. `least` is the smallest normal number of the format in which ULPs are counted. */
struct rule {
    double allowance, relative, least;
};

/* Results of the chunks so far; an index is -1 if there is none. */
struct found {
    double dot, tt, gg, dd, sum, greatest, absolute, relative, ulps, excess;
    int64_t absolute_at, nearer, near, excess_at, beyond, mismatched, mismatched_at;
};

/* The loops of one instruction set. */
struct sweep {
    int (*chunk_float)(struct found *, const float *, const float *, const double *, size_t, size_t,
                       const struct rule *, int);
    void (*careful_float)(struct found *, const float *, const float *, size_t, size_t, const struct rule *);
    int (*same_float)(struct found *, const float *, size_t);
    double (*greatest_float)(const float *, size_t);
    const float *(*to_float)(char, const void *, size_t, float *);
    int (*chunk_double)(struct found *, const double *, const double *, const double *, size_t, size_t,
                        const struct rule *, int);
    void (*careful_double)(struct found *, const double *, const double *, size_t, size_t, const struct rule *);
    int (*same_double)(struct found *, const double *, size_t);
    double (*greatest_double)(const double *, size_t);
    const double *(*to_double)(char, const void *, size_t, double *);
    void (*differ)(char, const void *, char, const void *, size_t, double *);
};

#if defined(__x86_64__)
#include <immintrin.h>

#define NAME(x) x##_avx2
#define TARGET __attribute__((target("avx2,f16c")))
#define VECTOR 32
#define MAX_float(x, best) ((NAME(floats))_mm256_max_ps((__m256)(x), (__m256)(best)))
#define MAX_double(x, best) ((NAME(doubles))_mm256_max_pd((__m256d)(x), (__m256d)(best)))
#define WIDEN(from) ((NAME(doubles))_mm256_cvtps_pd(_mm_loadu_ps(from)))
#define HALVES(from, to) _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#include "_measure_sweep.inc"
#endif

#define NAME(x) x##_plain
#define TARGET
#define VECTOR 16
#include "_measure_sweep.inc"

static const struct sweep *chosen = &sweep_plain;

/* Return the loops for an instruction set, "avx2" or "plain"; NULL if the processor does not support it. */
static const struct sweep *sweep_for(const char *instruction_set)
{
#if defined(__x86_64__)
    if (strcmp(instruction_set, "avx2") == 0 && __builtin_cpu_supports("avx2"))
        return &sweep_avx2; /* processors with AVX2 have F16C */
#endif
    return strcmp(instruction_set, "plain") == 0 ? &sweep_plain : NULL;
}

/* One side of a block; `code` is the letter of its type in the buffer protocol, and `width` the bytes of an element. */
struct side {
    const char *data;
    size_t width;
    char code;
};

/* Return the letter of the type of a buffer, or 0 if it cannot be processed directly. `l` and `L`, whose size depends on the
 * platform, become letters of a fixed size. */
static char code_of(const Py_buffer *buffer)
{
    const char *format = buffer->format ? buffer->format : "B";
    if (format[0] == '\0' || format[1] != '\0' || !PyBuffer_IsContiguous(buffer, 'C') ||
        (uintptr_t)buffer->buf % (size_t)(buffer->itemsize ? buffer->itemsize : 1))
        return 0;
    switch (format[0]) {
    case 'l': return buffer->itemsize == 8 ? 'q' : 'i';
    case 'L': return buffer->itemsize == 8 ? 'Q' : 'I';
    default: return strchr("efd?bBhHiIqQ", format[0]) ? format[0] : 0;
    }
}

static int is_narrow(char code) { return code == 'e' || code == 'f'; }
static int is_long(char code) { return code == 'q' || code == 'Q'; }
static int is_integer(char code) { return !is_narrow(code) && code != 'd'; }

/* Return the largest finite magnitude of the golden elements, or any magnitude that is at least 1. */
static double greatest_of(const struct side *g, size_t size)
{
    union { float narrow[CHUNK]; double wide[CHUNK]; } to;
    double largest = 0;
    for (size_t at = 0; at < size && largest < 1; at += CHUNK) {
        size_t n = size - at < CHUNK ? size - at : CHUNK;
        const char *from = g->data + at * g->width;
        double here = is_narrow(g->code) ? chosen->greatest_float(chosen->to_float(g->code, from, n, to.narrow), n)
                                         : chosen->greatest_double(chosen->to_double(g->code, from, n, to.wide), n);
        largest = here > largest ? here : largest;
    }
    return largest;
}

static void narrow_chunk(struct found *all, const struct side *t, const struct side *g, size_t n, size_t at,
                         const struct rule *rule)
{
    float from_t[CHUNK], from_g[CHUNK];
    const char *raw_t = t->data + at * t->width, *raw_g = g->data + at * g->width;
    const float *y = chosen->to_float(g->code, raw_g, n, from_g);
    if (t->code == g->code && memcmp(raw_t, raw_g, n * t->width) == 0 && chosen->same_float(all, y, n))
        return;
    const float *x = chosen->to_float(t->code, raw_t, n, from_t);
    if (!chosen->chunk_float(all, x, y, NULL, n, at, rule, 0))
        chosen->careful_float(all, x, y, n, at, rule);
}

static void wide_chunk(struct found *all, const struct side *t, const struct side *g, size_t n, size_t at,
                       const struct rule *rule)
{
    double from_t[CHUNK], from_g[CHUNK], differences[CHUNK];
    const char *raw_t = t->data + at * t->width, *raw_g = g->data + at * g->width;
    const double *y = chosen->to_double(g->code, raw_g, n, from_g), *exact = NULL;
    if (t->code == g->code && memcmp(raw_t, raw_g, n * t->width) == 0 && chosen->same_double(all, y, n))
        return;
    const double *x = chosen->to_double(t->code, raw_t, n, from_t);
    if (is_integer(t->code) && is_integer(g->code) && (is_long(t->code) || is_long(g->code))) {
        chosen->differ(t->code, raw_t, g->code, raw_g, n, differences);
        exact = differences;
    }
    if (!chosen->chunk_double(all, x, y, exact, n, at, rule, 0))
        chosen->careful_double(all, x, y, n, at, rule);
}

/* Measure a block, and set *scale to the scale that was used. */
static struct found measure(const struct side *t, const struct side *g, size_t size, double *scale, double absolute,
                            struct rule *rule)
{
    struct found all = {.absolute_at = -1, .excess_at = -1, .mismatched_at = -1};
    float_mode before = begin_exact_mode();
    if (*scale < 1) {
        double here = greatest_of(g, size);
        here = here < 1 ? here : 1;
        *scale = here > *scale ? here : *scale;
    }
    rule->allowance = absolute * *scale;
    int narrow = is_narrow(t->code) && is_narrow(g->code);
    for (size_t at = 0; at < size; at += CHUNK)
        (narrow ? narrow_chunk : wide_chunk)(&all, t, g, size - at < CHUNK ? size - at : CHUNK, at, rule);
    end_exact_mode(before);
    return all;
}

PyDoc_STRVAR(block_doc, "block(target, golden, scale, absolute, relative, least)\n--\n\n"
                        "Return the values of a Block; None for buffers whose memory cannot be processed directly.");

static PyObject *block(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *target, *golden; /* borrowed */
    PyObject *found = NULL;    /* new */
    Py_buffer b = {.obj = NULL}, c = {.obj = NULL}; /* owned; releasing one without an object does nothing */
    double scale, absolute;
    struct rule rule;
    if (!PyArg_ParseTuple(args, "OOdddd", &target, &golden, &scale, &absolute, &rule.relative, &rule.least))
        goto done;
    if (PyObject_GetBuffer(target, &b, PyBUF_STRIDES | PyBUF_FORMAT) < 0)
        goto done;
    if (PyObject_GetBuffer(golden, &c, PyBUF_STRIDES | PyBUF_FORMAT) < 0)
        goto done;
    struct side t = {b.buf, (size_t)b.itemsize, code_of(&b)}, g = {c.buf, (size_t)c.itemsize, code_of(&c)};
    if (!t.code || !g.code)
        found = Py_NewRef(Py_None);
    else if (b.len / b.itemsize != c.len / c.itemsize)
        PyErr_SetString(PyExc_ValueError, "the two blocks have different numbers of elements");
    else {
        struct found all;
        Py_BEGIN_ALLOW_THREADS
        all = measure(&t, &g, t.width ? (size_t)b.len / t.width : 0, &scale, absolute, &rule);
        Py_END_ALLOW_THREADS
        found = Py_BuildValue("dddddddLdLLddLLLLd", all.dot, all.tt, all.gg, all.dd, all.sum, all.greatest, all.absolute,
                              (long long)all.absolute_at, all.relative, (long long)all.nearer, (long long)all.near,
                              all.ulps, all.excess, (long long)all.excess_at, (long long)all.beyond,
                              (long long)all.mismatched, (long long)all.mismatched_at, scale);
    }
done:
    PyBuffer_Release(&b);
    PyBuffer_Release(&c);
    return found;
}

PyDoc_STRVAR(choose_doc, "choose(instruction_set)\n--\n\n"
                         "Use the loops for an instruction set, 'avx2' or 'plain', from now on; return False if the processor does not\n"
                         "support it. For tests: the best one is selected at import.");

static PyObject *choose(PyObject *Py_UNUSED(module), PyObject *instruction_set)
{
    const char *name = PyUnicode_AsUTF8(instruction_set);
    const struct sweep *found = name ? sweep_for(name) : NULL;
    if (found)
        chosen = found;
    return name ? PyBool_FromLong(found != NULL) : NULL;
}

static PyMethodDef methods[] = {
    {"block", block, METH_VARARGS, block_doc},
    {"choose", choose, METH_O, choose_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "msprobe.compare.measure._measure",
    .m_doc = "Measures of one block of two tensors in one pass over memory.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__measure(void)
{
    const struct sweep *best = sweep_for("avx2");
    if (best)
        chosen = best;
    return PyModule_Create(&definition);
}
