/* A call's values as a tree where none of them is a container, which is so for most calls; see `tree_of` in nested.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { OTHER, TENSOR }; /* the first of the kinds of nested.py */

static PyObject *kinds, *tree, *places, *walked, *nothing; /* what `prepare` was given, and an empty tuple */

/* The leaves of the tensors among values of which none is a container; NULL without an error where one may be. */
static PyObject *leaves(PyObject *const *values, Py_ssize_t count)
{
    PyObject *made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < count; i++) {
        PyObject *known = PyDict_GetItemWithError(kinds, (PyObject *)Py_TYPE(values[i]));
        long kind = known ? PyLong_AsLong(known) : -1;
        if (kind == OTHER)
            continue;
        PyObject *leaf = kind == TENSOR ? PyTuple_Pack(2, PyTuple_GET_ITEM(places, i), values[i]) : NULL;
        if (leaf == NULL || PyList_Append(made, leaf) < 0)
            Py_CLEAR(made);
        Py_XDECREF(leaf);
    }
    return made;
}

PyDoc_STRVAR(tree_of_doc, "tree_of(values)\n--\n\nA call's inputs or outputs as a tree; see nested.py.");

static PyObject *tree_of(PyObject *Py_UNUSED(module), PyObject *values)
{
    int is_plain = tree && (PyTuple_CheckExact(values) || PyList_CheckExact(values));
    Py_ssize_t count = is_plain ? PySequence_Fast_GET_SIZE(values) : 0;
    PyObject *tensors = is_plain && count <= PyTuple_GET_SIZE(places) ? leaves(PySequence_Fast_ITEMS(values), count) : NULL;
    if (tensors == NULL) {
        if (PyErr_Occurred()) { /* a type that cannot be looked up */
            if (!PyErr_ExceptionMatches(PyExc_Exception))
                return NULL;
            PyErr_Clear();
        }
        return PyObject_CallOneArg(walked, values);
    }
    PyObject *fields = PyTuple_Pack(4, values, tensors, nothing, nothing), *args = fields ? PyTuple_Pack(1, fields) : NULL;
    PyObject *made = args ? PyTuple_Type.tp_new((PyTypeObject *)tree, args, NULL) : NULL;
    Py_DECREF(tensors);
    Py_XDECREF(fields);
    Py_XDECREF(args);
    return made;
}

PyDoc_STRVAR(prepare_doc, "prepare(kinds, tree, places, walked)\n--\n\n"
                          "What nested.py has: the kinds by type, the class of trees, the texts of the first places, and the function\n"
                          "for everything else.");

static PyObject *prepare(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *new_kinds, *new_tree, *new_places, *new_walked;
    if (!PyArg_ParseTuple(args, "O!O!O!O", &PyDict_Type, &new_kinds, &PyType_Type, &new_tree, &PyTuple_Type, &new_places, &new_walked))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)new_tree, &PyTuple_Type))
        return PyErr_Format(PyExc_TypeError, "a tree is a tuple");
    Py_XSETREF(kinds, Py_NewRef(new_kinds));
    Py_XSETREF(tree, Py_NewRef(new_tree));
    Py_XSETREF(places, Py_NewRef(new_places));
    Py_XSETREF(walked, Py_NewRef(new_walked));
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"tree_of", tree_of, METH_O, tree_of_doc},
    {"prepare", prepare, METH_VARARGS, prepare_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_nested", "Values of calls; see nested.py.", -1, METHODS};

PyMODINIT_FUNC PyInit__nested(void)
{
    nothing = PyTuple_New(0);
    return nothing ? PyModule_Create(&MODULE) : NULL;
}
