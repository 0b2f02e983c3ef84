/* Functions that are called by C++ code which does not expect an exception. */

#include "_gradients.h"

/* An exception that is raised later. */
struct exception {
    PyObject *type, *value, *trace; /* new, or NULL */
};

static int raise_later(void *exception /* owned */)
{
    struct exception *later = exception;
    PyErr_Restore(later->type, later->value, later->trace);
    PyMem_Free(later);
    return -1;
}

static void free_exception(struct exception *of)
{
    Py_XDECREF(of->type);
    Py_XDECREF(of->value);
    Py_XDECREF(of->trace);
    PyMem_Free(of);
}

/* Call the function again if an interrupt ended the call, and raise the interrupt as soon as other code runs. */
static PyObject *insistent_call(PyObject *function, PyObject *args)
{
    struct exception *first = NULL;                       /* owned: of several the first is raised */
    PyObject *made = PyObject_CallObject(function, args); /* new */
    for (int attempt = 0; made == NULL && attempt < 3; attempt++) {
        struct exception *later = PyMem_Calloc(1, sizeof *later); /* owned */
        if (later == NULL)
            break;
        PyErr_Fetch(&later->type, &later->value, &later->trace);
        if (first != NULL)
            free_exception(later);
        else
            first = later;
        made = PyObject_CallObject(function, args);
    }
    if (first != NULL && (made == NULL || Py_AddPendingCall(raise_later, first) < 0)) {
        PyErr_Clear();
        Py_CLEAR(made);
        raise_later(first);
    }
    return made;
}

static PyMethodDef INSISTENT = {"insistent", insistent_call, METH_VARARGS, NULL};

const char insistent_doc[] = PyDoc_STR("insistent(function)\n--\n\nReturn a function that does the same, and returns before an interrupt is raised.");

PyObject *insistent(PyObject *Py_UNUSED(module), PyObject *function)
{
    return PyCFunction_New(&INSISTENT, function);
}
