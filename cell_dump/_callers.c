/* The frames that lead to a call, as a key by which a known call stack is found again; see `Stacks` in describer.py. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

enum { MOST = 1024 }; /* numbers of a key; a deeper stack is Python's to walk */

/* Whether the last constant of a frame's code says that it is a trampoline; see base/in_place.py. */
static int is_trampoline(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame); /* new */
    Py_ssize_t count = PyTuple_GET_SIZE(code->co_consts);
    PyObject *last = count ? PyTuple_GET_ITEM(code->co_consts, count - 1) : NULL; /* borrowed */
    int found = last && PyUnicode_CheckExact(last) && PyUnicode_CompareWithASCIIString(last, "msprobe: in place") == 0;
    Py_DECREF(code);
    return found;
}

static int is_ours(PyFrameObject *frame)
{
    PyObject *globals = PyObject_GetAttrString((PyObject *)frame, "f_globals");
    PyObject *name = globals && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : NULL;
    const char *text = name && PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8(name) : NULL;
    int found = text && strncmp(text, "msprobe.", 8) == 0;
    Py_XDECREF(globals);
    PyErr_Clear();
    return found || is_trampoline(frame);
}

static intptr_t instruction(PyFrameObject *frame)
{
#if PY_VERSION_HEX >= 0x030b0000
    return PyFrame_GetLasti(frame);
#else
    PyObject *number = PyObject_GetAttrString((PyObject *)frame, "f_lasti");
    intptr_t found = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    PyErr_Clear();
    return found;
#endif
}

PyDoc_STRVAR(key_doc, "key(skipped, enclosing, above)\n--\n\n"
                      "A key of the stack that begins `skipped` frames above the caller, behind those of msprobe.\n\n"
                      "Bytes made of the code object and the instruction of each frame. At a frame of the code `enclosing`, where\n"
                      "`above` is a number, it ends in that number. None where the stack is too deep.");

static PyObject *key(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "key() takes 3 arguments, not %zd", count);
    intptr_t numbers[MOST], above = args[2] == Py_None ? 0 : PyLong_AsSsize_t(args[2]);
    Py_ssize_t skipped = PyLong_AsSsize_t(args[0]);
    if (PyErr_Occurred())
        return NULL;
    PyFrameObject *frame = PyEval_GetFrame();
    Py_XINCREF(frame);
    size_t length = 0;
    while (frame != NULL && length < MOST - 1) {
        if (skipped > 0)
            skipped--;
        else if (length || !is_ours(frame)) {
            PyCodeObject *code = PyFrame_GetCode(frame);
            Py_DECREF(code); /* the frame holds it */
            if (length && args[2] != Py_None && (PyObject *)code == args[1]) {
                numbers[length++] = above;
                break;
            }
            numbers[length++] = (intptr_t)code;
            numbers[length++] = instruction(frame);
        }
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
    int is_whole = length < MOST - 1;
    Py_XDECREF(frame);
    if (!is_whole)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)numbers, (Py_ssize_t)(length * sizeof *numbers));
}

static PyMethodDef METHODS[] = {
    {"key", (PyCFunction)(void (*)(void))key, METH_FASTCALL, key_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_callers", "The frames that lead to a call; see describer.py.", -1, METHODS,
};

PyMODINIT_FUNC PyInit__callers(void) { return PyModule_Create(&MODULE); }
