/* Operators in running graphs that report to Python; called by `ops.Custom(func_type="aot")`.
 *
 * `transport/callback.py` has the same operators in Python, which are used if these were not built. Those call Python and
 * copy a tensor in every run. These only read a variable if there is no listener; otherwise they pass the framework's
 * memory or a record to Python. They take any number of tensors, including empty and 0-d ones.
 *
 * The inputs of an operator are one or two int32 numbers followed by tensors; its output is one int32.
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

/* Whether there is a listener, and whether it takes records instead of memory. Read by threads of the framework. */
enum { NO_LISTENER, MEMORY, RECORDS };
static atomic_int listens;

/* Number of operator runs, and of records made here; used by tests. */
static atomic_llong runs, records;

enum function { ENTER, VALUES, LEAVE, BEGIN_RUN, END_RUN, GRADIENT, PARAMETER_GRADIENTS, FUNCTIONS };
static PyObject *functions[FUNCTIONS]; /* new, never released */

/* Writes the statistics of elements in memory (see `base/_record.h`); NULL if `base._statistic` was not built. */
static size_t (*write_statistics)(char *to, void *address, size_t n, int letter);

/* Dtypes: name in the framework, name in records, and NumPy's character code ('E' for bfloat16). */
static const struct dtype {
    const char *name, *recorded;
    int letter;
} DTYPES[] = {
    {"float32", "Float32", 'f'}, {"float16", "Float16", 'e'}, {"bfloat16", "BFloat16", 'E'}, {"float64", "Float64", 'd'},
    {"int64", "Int64", 'q'},     {"int32", "Int32", 'i'},     {"int16", "Int16", 'h'},       {"int8", "Int8", 'b'},
    {"uint32", "UInt32", 'I'},   {"uint16", "UInt16", 'H'},   {"uint8", "UInt8", 'B'},       {"bool", "Bool", '?'},
};

/* A tensor as passed by the framework; all pointers are borrowed for the duration of a run. */
struct tensor {
    void *data;
    int rank;
    const int64_t *shape;
    const char *dtype;
};

static Py_ssize_t element_count(const struct tensor *tensor)
{
    Py_ssize_t n = 1;
    for (int i = 0; i < tensor->rank; i++)
        n *= (Py_ssize_t)tensor->shape[i];
    return n;
}

/* Size of an element in bytes. Names of dtypes, except bool, end with the number of bits. */
static Py_ssize_t item_size(const char *dtype)
{
    const char *bits = dtype + strcspn(dtype, "0123456789");
    return *bits ? atoi(bits) / 8 : 1;
}

/* Return (new) the record in the form of `ArrayDescriber`; NULL without an exception if Python must make it. */
static PyObject *record_of(const struct tensor *tensor)
{
    enum { STATISTICS = 512, DIMENSION = 21, DIMENSIONS = 16 };
    char text[80 + DIMENSIONS * DIMENSION + STATISTICS];
    const struct dtype *dtype = DTYPES, *end = DTYPES + sizeof DTYPES / sizeof *DTYPES;
    while (dtype < end && strcmp(dtype->name, tensor->dtype) != 0)
        dtype++;
    if (dtype == end || tensor->rank > DIMENSIONS)
        return NULL;
    int length = sprintf(text, "{\"type\":\"mindspore.Tensor\",\"dtype\":\"%s\",\"shape\":[", dtype->recorded);
    for (int i = 0; i < tensor->rank; i++)
        length += sprintf(text + length, i ? ",%lld" : "%lld", (long long)tensor->shape[i]);
    length += sprintf(text + length, "],");
    size_t written = write_statistics(text + length, tensor->data, (size_t)element_count(tensor), dtype->letter);
    if (written == 0)
        return NULL;
    length += (int)written;
    text[length++] = '}';
    atomic_fetch_add_explicit(&records, 1, memory_order_relaxed);
    return PyUnicode_DecodeASCII(text, length, NULL);
}

/* Return (new) the record of a tensor, or a read-only view of its memory. */
static PyObject *argument_of(const struct tensor *tensor, int listener)
{
    PyObject *record = listener == RECORDS ? record_of(tensor) : NULL; /* new */
    if (record || PyErr_Occurred())
        return record;
    Py_ssize_t size = element_count(tensor) * item_size(tensor->dtype);
    return size > 0 ? PyMemoryView_FromMemory(tensor->data, size, PyBUF_READ) : PyBytes_FromStringAndSize(NULL, 0);
}

/* Return the result of the function (borrowed) for the numbers and tensors; 0 if it raises. Needs the GIL. */
static int32_t call(PyObject *function, int listener, int numbers, int inputs, void **values, const int *ranks,
                    int64_t **shapes, const char **dtypes)
{
    PyObject *args = PyTuple_New(inputs), *returned = NULL; /* new */
    int32_t result = 0;
    for (int i = 0; args && i < inputs; i++) {
        struct tensor tensor = {values[i], ranks[i], shapes[i], dtypes[i]};
        PyObject *arg = i < numbers ? PyLong_FromLong(*(const int32_t *)values[i]) : argument_of(&tensor, listener); /* new */
        if (arg)
            PyTuple_SET_ITEM(args, i, arg); /* steals */
        else
            Py_CLEAR(args);
    }
    if (args)
        returned = PyObject_Call(function, args, NULL);
    if (returned)
        result = (int32_t)PyLong_AsLong(returned);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(function); /* a debugger never stops the training because of itself */
    Py_XDECREF(returned);
    Py_XDECREF(args);
    return result;
}

static int run(enum function which, int numbers, int count, void **values, int *ranks, int64_t **shapes,
               const char **dtypes)
{
    int32_t result = 0;
    atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed);
    int listener = atomic_load_explicit(&listens, memory_order_acquire);
    if (listener != NO_LISTENER) {
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
                          "Set the functions that the operators call. Arguments are the numbers and, for each tensor,\n"
                          "its record as JSON text or a view of its memory; the functions return int.");

static PyObject *connect(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != FUNCTIONS)
        return PyErr_Format(PyExc_TypeError, "connect() takes %d functions, not %zd", FUNCTIONS, count);
    for (int i = 0; i < FUNCTIONS; i++)
        Py_XSETREF(functions[i], Py_NewRef(args[i]));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(listen_doc, "listen(listens, takes_records)\n--\n\n"
                         "Set whether the operators call their functions, and whether they pass records, for tensors\n"
                         "whose records can be made here.");

static PyObject *set_listens(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "listen() takes 2 flags, not %zd", count);
    int value = PyObject_IsTrue(args[0]), takes_records = PyObject_IsTrue(args[1]);
    if (value < 0 || takes_records < 0)
        return NULL;
    value = !value || !functions[0] ? NO_LISTENER : takes_records && write_statistics ? RECORDS : MEMORY;
    atomic_store_explicit(&listens, value, memory_order_release);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(count_doc, "count()\n--\n\nReturn the number of operator runs, with or without a listener.");

static PyObject *count_runs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyLong_FromLongLong(atomic_load(&runs));
}

PyDoc_STRVAR(count_records_doc, "count_records()\n--\n\nReturn the number of records made here.");

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
    void *pointer = capsule ? PyCapsule_GetPointer(capsule, "msprobe.base._statistic.write_statistics") : NULL;
    memcpy(&write_statistics, &pointer, sizeof pointer); /* ISO C does not allow casts from void * to a function */
    Py_XDECREF(statistic);
    Py_XDECREF(capsule);
    if (module)
        PyErr_Clear(); /* `_statistic` was not built: Python makes the records */
    return module;
}
