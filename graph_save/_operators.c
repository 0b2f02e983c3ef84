/* Operators of a running graph that report to Python, as `ops.Custom(func_type="aot")` calls them.
 *
 * `transport/callback.py` has the same reports by operators of Python, which serve where this was not built. Each of those
 * costs a call of Python and a copy of its tensor in every run. These test a variable while nobody listens, pass the
 * framework's own memory to Python while somebody does, or its record, and take any number of tensors, empty ones and
 * ones without dimensions too.
 *
 * An operator's inputs are one or two int32 numbers, and tensors behind them; its output is one int32.
 *
 * Ownership: parameters are borrowed, objects that are returned are new.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether somebody listens, and takes records in place of memory: read by the framework's threads without a lock. */
enum { NOBODY, MEMORY, RECORDS };
static atomic_int listens;

/* Runs of operators, and tensors that became records, for tests that count them. */
static atomic_llong runs, records;

enum function { ENTER, VALUES, LEAVE, BEGIN_RUN, END_RUN, GRADIENT, PARAMETER_GRADIENTS, FUNCTIONS };
static PyObject *functions[FUNCTIONS]; /* new, until the process ends */

/* Writes the statistics of elements in memory, of which `base/_record.h` has more to say; NULL where it was not built. */
static size_t (*write_statistics)(char *to, void *address, size_t n, int letter);

/* What stands in records for a dtype of the framework, and numpy's letter for it, 'E' for bfloat16. */
static const struct dtype {
    const char *name, *recorded;
    int letter;
} DTYPES[] = {
    {"float32", "Float32", 'f'}, {"float16", "Float16", 'e'}, {"bfloat16", "BFloat16", 'E'}, {"float64", "Float64", 'd'},
    {"int64", "Int64", 'q'},     {"int32", "Int32", 'i'},     {"int16", "Int16", 'h'},       {"int8", "Int8", 'b'},
    {"uint32", "UInt32", 'I'},   {"uint16", "UInt16", 'H'},   {"uint8", "UInt8", 'B'},       {"bool", "Bool", '?'},
};

/* A tensor as the framework passes it: all borrowed, for the time of a run. */
struct tensor {
    void *data;
    int rank;
    const int64_t *shape;
    const char *dtype;
};

static Py_ssize_t elements_of(const struct tensor *of)
{
    Py_ssize_t n = 1;
    for (int i = 0; i < of->rank; i++)
        n *= (Py_ssize_t)of->shape[i];
    return n;
}

/* Names of dtypes end in their bits; that of bool does not. */
static Py_ssize_t size_of(const char *dtype)
{
    const char *bits = dtype + strcspn(dtype, "0123456789");
    return *bits ? atoi(bits) / 8 : 1;
}

/* The record, as `ArrayDescriber` makes it of an array; NULL, with or without an exception, where it is to do that. */
static PyObject *record_of(const struct tensor *of)
{
    enum { STATISTICS = 512, DIMENSION = 21, DIMENSIONS = 16 };
    char text[80 + DIMENSIONS * DIMENSION + STATISTICS];
    const struct dtype *known = DTYPES, *end = DTYPES + sizeof DTYPES / sizeof *DTYPES;
    while (known < end && strcmp(known->name, of->dtype) != 0)
        known++;
    if (known == end || of->rank > DIMENSIONS)
        return NULL;
    int length = sprintf(text, "{\"type\":\"mindspore.Tensor\",\"dtype\":\"%s\",\"shape\":[", known->recorded);
    for (int i = 0; i < of->rank; i++)
        length += sprintf(text + length, i ? ",%lld" : "%lld", (long long)of->shape[i]);
    length += sprintf(text + length, "],");
    size_t more = write_statistics(text + length, of->data, (size_t)elements_of(of), known->letter);
    if (more == 0)
        return NULL;
    length += (int)more;
    text[length++] = '}';
    atomic_fetch_add_explicit(&records, 1, memory_order_relaxed);
    return PyUnicode_DecodeASCII(text, length, NULL);
}

/* The record of a tensor, or a read-only view of it. */
static PyObject *passed(const struct tensor *of, int listener)
{
    PyObject *made = listener == RECORDS ? record_of(of) : NULL; /* new */
    if (made || PyErr_Occurred())
        return made;
    Py_ssize_t size = elements_of(of) * size_of(of->dtype);
    return size > 0 ? PyMemoryView_FromMemory(of->data, size, PyBUF_READ) : PyBytes_FromStringAndSize(NULL, 0);
}

/* What the function gives for the numbers and the tensors; 0 where it raises. Needs the GIL. */
static int32_t call(PyObject *function, int listener, int numbers, int inputs, void **values, const int *ranks,
                    int64_t **shapes, const char **dtypes)
{
    PyObject *args = PyTuple_New(inputs), *found = NULL; /* new */
    int32_t result = 0;
    for (int i = 0; args && i < inputs; i++) {
        struct tensor tensor = {values[i], ranks[i], shapes[i], dtypes[i]};
        PyObject *made = i < numbers ? PyLong_FromLong(*(const int32_t *)values[i]) : passed(&tensor, listener); /* new */
        if (made)
            PyTuple_SET_ITEM(args, i, made);
        else
            Py_CLEAR(args);
    }
    if (args)
        found = PyObject_Call(function, args, NULL);
    if (found)
        result = (int32_t)PyLong_AsLong(found);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(function); /* a debugger never stops the training because of itself */
    Py_XDECREF(found);
    Py_XDECREF(args);
    return result;
}

static int run(enum function which, int numbers, int count, void **values, int *ranks, int64_t **shapes,
               const char **dtypes)
{
    int32_t result = 0;
    atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed);
    int listener = atomic_load_explicit(&listens, memory_order_acquire);
    if (listener != NOBODY) {
        PyGILState_STATE state = PyGILState_Ensure();
        result = call(functions[which], listener, numbers, count - 1, values, ranks, shapes, dtypes);
        PyGILState_Release(state);
    }
    *(int32_t *)values[count - 1] = result;
    return 0;
}

#define OPERATOR(name, which, numbers)                                                                                 \
    __attribute__((visibility("default"))) int name(int count, void **values, int *ranks, int64_t **shapes,            \
                                                    const char **dtypes, void *stream, void *extra)                    \
    {                                                                                                                  \
        (void)stream, (void)extra;                                                                                     \
        return run(which, numbers, count, values, ranks, shapes, dtypes);                                              \
    }
OPERATOR(msprobe_enter, ENTER, 1)
OPERATOR(msprobe_values, VALUES, 2)
OPERATOR(msprobe_leave, LEAVE, 2)
OPERATOR(msprobe_begin_run, BEGIN_RUN, 1)
OPERATOR(msprobe_end_run, END_RUN, 1)
OPERATOR(msprobe_gradient, GRADIENT, 2)
OPERATOR(msprobe_parameter_gradients, PARAMETER_GRADIENTS, 1)

PyDoc_STRVAR(connect_doc, "connect(enter, values, leave, begin_run, end_run, gradient, parameter_gradients)\n--\n\n"
                          "The functions that the operators call, for an int: with numbers, and of each tensor its record as\n"
                          "JSON text or a view of its memory.");

static PyObject *connect(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != FUNCTIONS)
        return PyErr_Format(PyExc_TypeError, "connect() takes %d functions, not %zd", FUNCTIONS, count);
    for (int i = 0; i < FUNCTIONS; i++)
        Py_XSETREF(functions[i], Py_NewRef(args[i]));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(listen_doc, "listen(listens, takes_records)\n--\n\n"
                         "Whether the operators call their functions from here on, and whether with records, of the tensors\n"
                         "of which they can be made here.");

static PyObject *set_listens(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "listen() takes 2 flags, not %zd", count);
    int value = PyObject_IsTrue(args[0]), takes_records = PyObject_IsTrue(args[1]);
    if (value < 0 || takes_records < 0)
        return NULL;
    value = !value || !functions[0] ? NOBODY : takes_records && write_statistics ? RECORDS : MEMORY;
    atomic_store_explicit(&listens, value, memory_order_release);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(count_doc, "count()\n--\n\nHow often operators have run, listened to or not.");

static PyObject *count_runs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyLong_FromLongLong(atomic_load(&runs));
}

PyDoc_STRVAR(count_records_doc, "count_records()\n--\n\nHow many records of tensors were made here.");

static PyObject *count_records(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyLong_FromLongLong(atomic_load(&records));
}

static PyMethodDef methods[] = {{"connect", (PyCFunction)(void (*)(void))connect, METH_FASTCALL, connect_doc},
                                {"listen", (PyCFunction)(void (*)(void))set_listens, METH_FASTCALL, listen_doc},
                                {"count", count_runs, METH_NOARGS, count_doc},
                                {"count_records", count_records, METH_NOARGS, count_records_doc},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_operators", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__operators(void)
{
    PyObject *module = PyModule_Create(&definition);                                                  /* new */
    PyObject *statistic = module ? PyImport_ImportModule("msprobe.base._statistic") : NULL;           /* new */
    PyObject *capsule = statistic ? PyObject_GetAttrString(statistic, "write_statistics") : NULL; /* new */
    void *found = capsule ? PyCapsule_GetPointer(capsule, "msprobe.base._statistic.write_statistics") : NULL;
    memcpy(&write_statistics, &found, sizeof found); /* ISO C casts no address of data to one of code */
    Py_XDECREF(statistic);
    Py_XDECREF(capsule);
    if (module)
        PyErr_Clear(); /* that extension was not built: Python makes the records */
    return module;
}
