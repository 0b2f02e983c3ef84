/* Attributes of a module or class replaced all at once: what `_swap` of patches.py does, and is read there. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Whether a name may stand for a slot of its class: then the class must be told of what is put there. */
static int has_slot(PyObject *name)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL)
        PyErr_Clear();
    return text == NULL || (length > 4 && text[0] == '_' && text[1] == '_' && text[length - 1] == '_' && text[length - 2] == '_');
}

/* The namespace of a module, or of a class that need not be asked: it may be changed where `PyType_Modified` is called
 * afterwards. NULL where a metaclass stands in between. */
static PyObject *open_namespace(PyObject *owner)
{
    if (PyModule_Check(owner))
        return PyModule_GetDict(owner);
#ifndef Py_GIL_DISABLED
    if (PyType_Check(owner) && Py_TYPE(owner)->tp_setattro == PyType_Type.tp_setattro) {
        PyTypeObject *class = (PyTypeObject *)owner;
        unsigned long wanted = Py_TPFLAGS_HEAPTYPE, never = 0;
#ifdef Py_TPFLAGS_IMMUTABLETYPE
        never = Py_TPFLAGS_IMMUTABLETYPE;
#endif
        if ((class->tp_flags & wanted) && !(class->tp_flags & never))
            return class->tp_dict;
    }
#endif
    return NULL;
}

static int is_as_found(PyObject *owner, PyObject *found, PyObject *inherited)
{
    PyObject *open = open_namespace(owner), *namespace = open ? Py_NewRef(open) : PyObject_GetAttrString(owner, "__dict__");
    if (namespace == NULL)
        return -1;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    int is_same = 1;
    while (is_same == 1 && PyDict_Next(found, &at, &name, &value)) {
        PyObject *here;
        if (open != NULL) {
            here = PyDict_GetItemWithError(namespace, name); /* borrowed */
            Py_XINCREF(here);
        } else { /* a view of it */
            here = PyObject_GetItem(namespace, name);
            if (here == NULL && PyErr_ExceptionMatches(PyExc_KeyError))
                PyErr_Clear();
        }
        is_same = PyErr_Occurred() ? -1 : (here ? here : inherited) == value;
        Py_XDECREF(here);
    }
    Py_DECREF(namespace);
    return is_same;
}

static int put(PyObject *namespace, PyObject *name, PyObject *value, PyObject *inherited)
{
    return value == inherited ? PyDict_DelItem(namespace, name) : PyDict_SetItem(namespace, name, value);
}

static int put_all(PyObject *owner, PyObject *found, PyObject *wanted, PyObject *inherited)
{
    PyObject *name, *value, *namespace = open_namespace(owner);
    Py_ssize_t at = 0;
    int failed = 0;
    while (!failed && PyDict_Next(wanted, &at, &name, &value)) {
        int is_quick = namespace != NULL;
        if (is_quick && !PyModule_Check(owner) && has_slot(name)) /* between functions of Python the slot stays the same */
            is_quick = PyFunction_Check(value) && PyFunction_Check(PyDict_GetItemWithError(found, name));
        if (is_quick)
            failed = put(namespace, name, value, inherited) < 0;
        else
            failed = (value == inherited ? PyObject_DelAttr(owner, name) : PyObject_SetAttr(owner, name, value)) < 0;
    }
    if (namespace != NULL && PyType_Check(owner))
        PyType_Modified((PyTypeObject *)owner);
    return failed ? -1 : 0;
}

static PyObject *swap(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 4 || !(PyModule_Check(args[0]) || PyType_Check(args[0])) || !PyDict_CheckExact(args[1]) || !PyDict_CheckExact(args[2]))
        return PyErr_Format(PyExc_TypeError, "swap() takes a module or class, two dicts and a mark");
    int is_same = is_as_found(args[0], args[1], args[3]);
    if (is_same == 1 && put_all(args[0], args[1], args[2], args[3]) < 0)
        return NULL;
    return is_same < 0 ? NULL : PyBool_FromLong(is_same);
}

static PyObject *matches(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !(PyModule_Check(args[0]) || PyType_Check(args[0])) || !PyDict_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "matches() takes a module or class, a dict and a mark");
    int is_same = is_as_found(args[0], args[1], args[2]);
    return is_same < 0 ? NULL : PyBool_FromLong(is_same);
}

static PyMethodDef METHODS[] = {
    {"matches", (PyCFunction)(void (*)(void))matches, METH_FASTCALL, "matches(owner, found, inherited)\n--\n\nAs `_matches` of patches.py."},
    {"swap", (PyCFunction)(void (*)(void))swap, METH_FASTCALL, "swap(owner, found, wanted, inherited)\n--\n\nAs `_swap` of patches.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_patching", "Attributes replaced all at once; see patches.py.", -1, METHODS};

PyMODINIT_FUNC PyInit__patching(void) { return PyModule_Create(&MODULE); }
