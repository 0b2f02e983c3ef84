/* Functions whose callers in C++ do not expect an exception. */

#include "_gradients.h"

static int raise_later(void *exception)
{
    PyObject **parts = exception; /* new: type, value, traceback */
    PyErr_Restore(parts[0], parts[1], parts[2]);
    PyMem_Free(parts);
    return -1;
}

/* Call the function again where an interrupt ended the call, and raise the interrupt as soon as other code runs. */
static PyObject *insistent_call(PyObject *function, PyObject *args)
{
    PyObject *made = PyObject_CallObject(function, args), **parts = NULL;
    for (int attempt = 0; made == NULL && attempt < 3; attempt++) {
        PyObject **later = PyMem_Calloc(3, sizeof *later);
        if (later == NULL)
            break;
        PyErr_Fetch(&later[0], &later[1], &later[2]);
        if (parts != NULL) { /* of several the first is raised */
            for (int i = 0; i < 3; i++)
                Py_XDECREF(later[i]);
            PyMem_Free(later);
        } else
            parts = later;
        made = PyObject_CallObject(function, args);
    }
    if (parts != NULL && (made == NULL || Py_AddPendingCall(raise_later, parts) < 0)) {
        PyErr_Clear();
        Py_CLEAR(made);
        raise_later(parts);
    }
    return made;
}

static PyMethodDef INSISTENT = {"insistent", insistent_call, METH_VARARGS, NULL};

const char insistent_doc[] = PyDoc_STR("insistent(function)\n--\n\nA function that does the same, and returns before an interrupt is raised.");

PyObject *insistent(PyObject *Py_UNUSED(module), PyObject *function)
{
    return PyCFunction_New(&INSISTENT, function);
}
