/* Records of tensors as JSON text, written without intermediate objects; `store/describe.py` writes the same in Python.
 *
 * Ownership: parameters are borrowed, and objects that are returned are new.
 */

#include "_statistic.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "_schema.h"

/* A text of bounded length on the stack: the statistics of a record are shorter. */
struct text {
    char letters[1536];
    size_t length;
};

static void put(struct text *to, const char *key, const char *value)
{
    size_t of_key = strlen(key), of_value = strlen(value);
    if (to->length + of_key + of_value >= sizeof to->letters)
        return;
    memcpy(to->letters + to->length, key, of_key);
    memcpy(to->letters + to->length + of_key, value, of_value + 1);
    to->length += of_key + of_value;
}

/* Return whether the current exception is an interrupt, by `interrupts.must_propagate`; the exception remains set. */
static int is_interrupt(void)
{
    PyObject *type, *cause, *trace; /* new */
    PyErr_Fetch(&type, &cause, &trace);
    PyErr_NormalizeException(&type, &cause, &trace);
    if (trace != NULL)
        PyException_SetTraceback(cause, trace);
    PyObject *module = PyImport_ImportModule("msprobe.base.interrupts");             /* new */
    PyObject *answer = module ? PyObject_CallMethod(module, "must_propagate", "O", cause) : NULL; /* new */
    int found = answer == Py_True;
    Py_XDECREF(module);
    Py_XDECREF(answer);
    PyErr_Clear();
    PyErr_Restore(type, cause, trace);
    return found;
}

/* Write a double as Python's json module does: the shortest text that is read back as the same number. */
static void put_double(struct text *to, const char *key, double value)
{
    char *made = NULL; /* new */
    const char *text = isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    if (isfinite(value))
        text = made = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    put(to, key, text ? text : "NaN"); /* NULL without memory */
    PyMem_Free(made);
}

static void put_whole(struct text *to, const char *key, long long value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", value);
    put(to, key, digits);
}

static void put_summary(struct text *to, const struct array *a, const struct summary *s)
{
    if (a->kind == 'i' || a->kind == 'u') {
        put_whole(to, KEY_MAX, (long long)s->max);
        put_whole(to, KEY_MIN, (long long)s->min);
    } else {
        put_double(to, KEY_MAX, s->max);
        put_double(to, KEY_MIN, s->min);
    }
    put_double(to, KEY_MEAN, s->mean);
    put_double(to, KEY_NORM, s->norm);
    if (s->nan)
        put_whole(to, KEY_NAN, s->nan);
    if (s->positive_inf)
        put_whole(to, KEY_POSITIVE_INF, s->positive_inf);
    if (s->negative_inf)
        put_whole(to, KEY_NEGATIVE_INF, s->negative_inf);
}

/* Return the pass for NumPy's character code, or 'E' for bfloat16, and set kind and itemsize. */
static floats_pass pass_for_letter(int letter, struct array *a)
{
    static const struct {
        char letter, kind;
        int itemsize;
        size_t pass;
    } KNOWN[] = {
        {'f', 'f', 4, offsetof(struct passes, float32)}, {'e', 'f', 2, offsetof(struct passes, float16)},
        {'E', 'f', 2, offsetof(struct passes, bfloat16)}, {'d', 'f', 8, offsetof(struct passes, float64)},
        {'i', 'i', 4, offsetof(struct passes, int32)},   {'I', 'u', 4, offsetof(struct passes, uint32)},
        {'h', 'i', 2, offsetof(struct passes, int16)},   {'H', 'u', 2, offsetof(struct passes, uint16)},
        {'b', 'i', 1, offsetof(struct passes, int8)},    {'B', 'u', 1, offsetof(struct passes, uint8)},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (KNOWN[i].letter == letter) {
            a->kind = KNOWN[i].kind, a->itemsize = KNOWN[i].itemsize;
            return *(const floats_pass *)((const char *)active_passes + KNOWN[i].pass);
        }
    return NULL;
}

static void put_digest(struct text *to, const struct digest *digest)
{
    char digits[24];
    if (!digest->is_wanted)
        return;
    snprintf(digits, sizeof digits, "\"crc32c:%08x\"", (unsigned)digest->crc);
    put(to, KEY_DIGEST, digits);
}

/* Optional statistics: each the share of the elements whose magnitude is below a limit, or not below it. */
struct share {
    const char *key; /* borrowed: with its comma and colon */
    double limit;
    int is_below, is_of_integers;
};

enum { MAX_SHARES = 16 };

struct shares {
    struct share of[MAX_SHARES];
    Py_ssize_t count;
};

static at_least_pass at_least_pass_for_letter(int letter)
{
    switch (letter) {
    case 'e': return active_passes->at_least.float16;
    case 'E': return active_passes->at_least.bfloat16;
    case 'f': return active_passes->at_least.float32;
    case 'd': return active_passes->at_least.float64;
    case 'b': return active_passes->at_least.int8;
    case 'B': return active_passes->at_least.uint8;
    case 'h': return active_passes->at_least.int16;
    case 'H': return active_passes->at_least.uint16;
    case 'i': return active_passes->at_least.int32;
    case 'I': return active_passes->at_least.uint32;
    case 'q': return active_passes->at_least.int64;
    default: return NULL;
    }
}

/* Add the shares of n elements, `nan` of which are NaN and count as neither. */
static void put_shares(struct text *to, const struct shares *shares, const struct array *a, size_t n, int letter, int64_t nan)
{
    if (!shares || !shares->count)
        return;
    int is_float = letter == 'e' || letter == 'E' || letter == 'f' || letter == 'd';
    int64_t found[MAX_SHARES];
    PyThreadState *thread = release_gil(a, n);
    at_least_pass pass = at_least_pass_for_letter(letter);
    for (Py_ssize_t i = 0; i < shares->count; i++)
        found[i] = pass ? pass(a->data, n, shares->of[i].limit) : count_true(a->data, n);
    take_gil(thread);
    for (Py_ssize_t i = 0; i < shares->count; i++) {
        const struct share *share = &shares->of[i];
        if (is_float || share->is_of_integers)
            put_double(to, share->key, (double)(share->is_below ? (int64_t)n - nan - found[i] : found[i]) / (double)n);
    }
}

/* Write the statistics of n contiguous elements and, with `digests`, their digest; return 0 for an unknown dtype, or if a
 * sum cancels so much that the mean is not precise.
 */
static int put_statistics(struct text *to, void *address, size_t n, int letter, int digests, const struct shares *shares)
{
    struct digest digest = {.is_wanted = digests};
    struct array a = {.data = address, .itemsize = letter == 'q' ? 8 : 1};
    floats_pass pass = pass_for_letter(letter, &a);
    if (!address || !n || (uintptr_t)address % (size_t)a.itemsize)
        return 0;
    if (pass) {
        struct summary s;
        if (!summarize(&a, n, pass, &s, &digest))
            return 0;
        put_summary(to, &a, &s);
        put_shares(to, shares, &a, n, letter, s.nan);
        put_digest(to, &digest);
        return 1;
    }
    if (letter == 'q') {
        struct int64s all = {.max = INT64_MIN, .min = INT64_MAX, .digest = digest};
        PyThreadState *thread = release_gil(&a, n);
        active_passes->int64(a.data, n, &all);
        take_gil(thread);
        put_whole(to, KEY_MAX, all.max);
        put_whole(to, KEY_MIN, all.min);
        put_double(to, KEY_MEAN, (double)all.sum / (double)n);
        put_double(to, KEY_NORM, sqrt(all.squares + all.squares_low));
        put_shares(to, shares, &a, n, letter, 0);
        put_digest(to, &all.digest);
        return 1;
    }
    if (letter == '?') {
        PyThreadState *thread = release_gil(&a, n);
        int64_t trues = count_true(a.data, n);
        digest_block(&digest, a.data, n);
        take_gil(thread);
        put(to, KEY_MAX, trues > 0 ? "true" : "false");
        put(to, KEY_MIN, (size_t)trues == n ? "true" : "false");
        put(to, KEY_MEAN, "null");
        put(to, KEY_NORM, "null");
        put_whole(to, KEY_TRUE_COUNT, trues);
        put_shares(to, shares, &a, n, letter, 0);
        put_digest(to, &digest);
        return 1;
    }
    return 0;
}

size_t write_statistics(char *to, void *address, size_t n, int letter)
{
    struct text found = {.length = 0};
    float_mode before = begin_exact_mode();
    int is_known = put_statistics(&found, address, n, letter, 0, NULL); /* no digest, no shares */
    end_exact_mode(before);
    memcpy(to, found.letters, is_known ? found.length : 0);
    return is_known ? found.length : 0;
}

/* Functions to read tensors, see `Describer`; borrowed from the tuple passed from Python. */
struct reader {
    PyObject *type, *dtype_of, *shape_of, *reads_in_place, *address_of, *heads;
    int digests;
    struct shares shares;
};

static int read_reader(PyObject *tuple, struct reader *by)
{
    PyObject *shares; /* borrowed, as all of it */
    if (!PyArg_ParseTuple(tuple, "O!OOOOO!pO!;a reader: a type, four functions, heads, a truth, shares", &PyType_Type,
                          &by->type, &by->dtype_of, &by->shape_of, &by->reads_in_place, &by->address_of, &PyDict_Type,
                          &by->heads, &by->digests, &PyTuple_Type, &shares))
        return 0;
    by->shares.count = PyTuple_GET_SIZE(shares);
    if (by->shares.count > MAX_SHARES)
        return PyErr_Format(PyExc_ValueError, "a reader has at most %d shares", MAX_SHARES), 0;
    for (Py_ssize_t i = 0; i < by->shares.count; i++) {
        struct share *of = &by->shares.of[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(shares, i), "sdpp;a share: key, limit, two truths", &of->key, &of->limit,
                              &of->is_below, &of->is_of_integers))
            return 0;
    }
    return 1;
}

/* Return (borrowed) the head for the dtype and shape of a tensor; NULL with or without an exception. */
static PyObject *head_of(const struct reader *by, PyObject *tensor)
{
    PyObject *dtype = PyObject_CallOneArg(by->dtype_of, tensor);                                /* new */
    PyObject *shape = dtype ? PyObject_CallOneArg(by->shape_of, tensor) : NULL;                 /* new */
    PyObject *key = shape ? Py_BuildValue("(NO)", PyLong_FromVoidPtr(dtype), shape) : NULL; /* new */
    PyObject *head = key ? PyDict_GetItemWithError(by->heads, key) : NULL;                      /* keeps the dtype alive */
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
    Py_XDECREF(key);
    return head;
}

/* Return (new) the record: `head`, the statistics, and `source` (JSON or NULL). */
static PyObject *finished(PyObject *head, const struct text *statistics, PyObject *source)
{
    static const char FROM[] = ",\"from\":";
    Py_ssize_t of_head = PyUnicode_GET_LENGTH(head), of_source = source ? PyUnicode_GET_LENGTH(source) : 0;
    Py_ssize_t length = of_head + (Py_ssize_t)statistics->length + (source ? (Py_ssize_t)sizeof FROM - 1 + of_source : 0) + 1;
    PyObject *made = PyUnicode_New(length, 127); /* new */
    if (made == NULL)
        return NULL;
    char *to = PyUnicode_DATA(made);
    memcpy(to, PyUnicode_DATA(head), (size_t)of_head);
    memcpy(to += of_head, statistics->letters, statistics->length);
    to += statistics->length;
    if (source) {
        memcpy(to, FROM, sizeof FROM - 1);
        memcpy(to += sizeof FROM - 1, PyUnicode_DATA(source), (size_t)of_source);
        to += of_source;
    }
    *to = '}';
    return made;
}

/* Return whether the elements of a tensor can be read at an address, and pass the address; 0 with or without an exception. */
static int address_in(const struct reader *by, PyObject *tensor, void **data)
{
    PyObject *address = NULL;                                             /* new */
    PyObject *in_place = PyObject_CallOneArg(by->reads_in_place, tensor); /* new */
    if (in_place != NULL && PyObject_IsTrue(in_place) == 1)
        address = PyObject_CallOneArg(by->address_of, tensor);
    *data = address ? PyLong_AsVoidPtr(address) : NULL;
    int is_read = address != NULL && !PyErr_Occurred();
    Py_XDECREF(in_place);
    Py_XDECREF(address);
    return is_read;
}

/* Return (borrowed) the JSON text of `from` for a tensor; NULL without one, or with an exception. */
static PyObject *source_of(PyObject *sources, PyObject *tensor)
{
    if (sources == Py_None)
        return NULL;
    PyObject *id = PyLong_FromVoidPtr(tensor);                                    /* new */
    PyObject *source = id ? PyDict_GetItemWithError(sources, id) : NULL; /* borrowed */
    Py_XDECREF(id);
    return source;
}

/* Return (new) the record of a tensor; NULL if it cannot be made here, with or without an exception. */
static PyObject *record_with(const struct reader *by, PyObject *tensor, PyObject *sources)
{
    PyObject *head = head_of(by, tensor);              /* borrowed, as all that follows */
    PyObject *start, *dtype = NULL, *of_caller = NULL;
    Py_ssize_t size;
    const char *letter;
    void *data;
    if (head == NULL || !PyArg_ParseTuple(head, "O!nsO|O", &PyUnicode_Type, &start, &size, &letter, &dtype, &of_caller))
        return NULL;
    if (!*letter || !PyUnicode_IS_ASCII(start) || !address_in(by, tensor, &data))
        return NULL;
    PyObject *source = source_of(sources, tensor);
    if (PyErr_Occurred() || (source && !(PyUnicode_Check(source) && PyUnicode_IS_ASCII(source))))
        return NULL;
    struct text found = {.length = 0};
    float_mode before = begin_exact_mode();
    int is_known = put_statistics(&found, data, (size_t)size, *letter, by->digests, &by->shares);
    end_exact_mode(before);
    return is_known ? finished(start, &found, source) : NULL;
}

/* Return (new) the record of a tensor, or None if it cannot be made here; NULL for interrupts. */
static PyObject *record_or_none(const struct reader *by, PyObject *value, PyObject *sources)
{
    if (!PyType_IsSubtype(Py_TYPE(value), (PyTypeObject *)by->type))
        Py_RETURN_NONE;
    PyObject *made = record_with(by, value, sources); /* new */
    if (made == NULL && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception) || is_interrupt())
            return NULL;
        PyErr_Clear(); /* with None the caller reads the tensor in Python, where it is raised again */
    }
    return made ? made : Py_NewRef(Py_None);
}

const char record_doc[] = PyDoc_STR(
    "record(tensor, reader)\n--\n\n"
    "Return the record of a tensor as JSON text; None if it cannot be made here.\n\n"
    "`reader` is a tuple: the class of tensors; four functions of a tensor that return its dtype, its shape,\n"
    "whether its elements are contiguous at an address, and this address; a dict of heads by (id of the dtype,\n"
    "shape); whether the record has the CRC-32C of the bytes of the elements (bfloat16 widened); and a tuple\n"
    "of shares, each a tuple: its key as `,\"zeros\":`, a positive limit, whether it counts the elements below\n"
    "the limit or all others, and whether integers and bool have it. A head is a tuple: the begin of the\n"
    "record, the number of elements, NumPy's character code of the dtype ('E' for bfloat16, empty if unknown),\n"
    "the dtype, and other data of the caller.\n"
    "None also after an exception of the framework, or if a sum cancels so much that the mean is not precise.");

PyObject *record(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    struct reader by;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "record() takes a tensor and a reader, not %zd arguments", count);
    return read_reader(args[1], &by) ? record_or_none(&by, args[0], Py_None) : NULL;
}

const char records_doc[] = PyDoc_STR(
    "records(values, reader, sources)\n--\n\n"
    "Return a list with the result of `record` for each value.\n\n"
    "`sources`, a dict or None, has the JSON text of `from` in the record, by id of the tensor.");

PyObject *records(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    struct reader by;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "records() takes values, a reader and sources, not %zd arguments", count);
    if (args[2] != Py_None && !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "the sources are a dict, or None");
    PyObject *values = read_reader(args[1], &by) ? PySequence_Fast(args[0], "the values are a sequence") : NULL; /* new */
    PyObject *made = values ? PyList_New(PySequence_Fast_GET_SIZE(values)) : NULL;                               /* new */
    for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(made); i++) {
        PyObject *text = record_or_none(&by, PySequence_Fast_GET_ITEM(values, i), args[2]); /* new */
        if (text)
            PyList_SET_ITEM(made, i, text); /* steals */
        else
            Py_CLEAR(made);
    }
    Py_XDECREF(values);
    return made;
}
