/* Operators of a running graph that report to Python, as `ops.Custom(func_type="aot")` calls them.
 *
 * `transport/callback.py` has the same reports by operators of Python, which serve where this was not built. Each of those
 * costs a call of Python and a copy of its tensor in every run. These test a variable while nobody listens, pass the
 * framework's own memory to Python while somebody does, and take any number of tensors, empty ones and ones without
 * dimensions too.
 *
 * An operator's inputs are one or two int32 numbers, and tensors behind them; its output is one int32.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Whether somebody listens: read by the framework's threads without a lock. */
static atomic_int listens;

/* Runs of operators, for tests that count them. */
static atomic_llong runs;

enum function { ENTER, VALUES, LEAVE, BEGIN_RUN, END_RUN, GRADIENT, PARAMETER_GRADIENTS, FUNCTIONS };
static PyObject *functions[FUNCTIONS]; /* kept until the process ends */

/* The bytes of a tensor. Names of dtypes end in their bits; that of bool does not. */
static Py_ssize_t size_of(const char *dtype, int rank, const int64_t *shape)
{
    const char *bits = dtype + strcspn(dtype, "0123456789");
    Py_ssize_t size = *bits ? atoi(bits) / 8 : 1;
    for (int i = 0; i < rank; i++)
        size *= (Py_ssize_t)shape[i];
    return size;
}

/* What the function gives for the numbers and read-only views of the tensors; 0 where it raises. Needs the GIL. */
static int32_t call(PyObject *function, int numbers, int inputs, void **values, const int *ranks, int64_t **shapes,
                    const char **dtypes)
{
    PyObject *args = PyTuple_New(inputs), *found = NULL;
    int32_t result = 0;
    for (int i = 0; args && i < inputs; i++) {
        Py_ssize_t size = i < numbers ? 0 : size_of(dtypes[i], ranks[i], shapes[i]);
        PyObject *made = i < numbers ? PyLong_FromLong(*(const int32_t *)values[i])
                         : size > 0  ? PyMemoryView_FromMemory(values[i], size, PyBUF_READ)
                                     : PyBytes_FromStringAndSize(NULL, 0);
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
    if (atomic_load_explicit(&listens, memory_order_acquire)) {
        PyGILState_STATE state = PyGILState_Ensure();
        result = call(functions[which], numbers, count - 1, values, ranks, shapes, dtypes);
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
                          "The functions that the operators call: with numbers and buffers, for an int.");

static PyObject *connect(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != FUNCTIONS)
        return PyErr_Format(PyExc_TypeError, "connect() takes %d functions, not %zd", FUNCTIONS, count);
    for (int i = 0; i < FUNCTIONS; i++)
        Py_XSETREF(functions[i], Py_NewRef(args[i]));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(listen_doc, "listen(listens)\n--\n\nWhether the operators call their functions from here on.");

static PyObject *set_listens(PyObject *Py_UNUSED(module), PyObject *flag)
{
    int value = PyObject_IsTrue(flag);
    if (value < 0)
        return NULL;
    atomic_store_explicit(&listens, value && functions[0], memory_order_release);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(count_doc, "count()\n--\n\nHow often operators have run, listened to or not.");

static PyObject *count_runs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
    return PyLong_FromLongLong(atomic_load(&runs));
}

static PyMethodDef methods[] = {{"connect", (PyCFunction)(void (*)(void))connect, METH_FASTCALL, connect_doc},
                                {"listen", set_listens, METH_O, listen_doc},
                                {"count", count_runs, METH_NOARGS, count_doc},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_operators", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__operators(void) { return PyModule_Create(&definition); }
