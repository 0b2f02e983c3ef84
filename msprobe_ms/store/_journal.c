/* Lines of calls: what `_call_line` and `_add_calls` of journal.py do, and is read there. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

static PyObject *quote; /* of the json module: a text as JSON in ASCII */

/* A text as JSON, a new reference; most have nothing to escape, and are returned as they are, to be put in marks. */
static PyObject *quoted(PyObject *text, int *is_plain)
{
    *is_plain = PyUnicode_IS_ASCII(text);
    const unsigned char *at = *is_plain ? PyUnicode_DATA(text) : NULL;
    for (Py_ssize_t i = 0; *is_plain && i < PyUnicode_GET_LENGTH(text); i++)
        *is_plain = at[i] >= ' ' && at[i] != '"' && at[i] != '\\' && at[i] != 127;
    return *is_plain ? Py_NewRef(text) : PyObject_CallOneArg(quote, text);
}

struct field {
    PyObject *text; /* or NULL: nothing */
    int has_marks;
};

static PyObject *joined(const struct field *fields, size_t count)
{
    Py_ssize_t length = 2 + (Py_ssize_t)count; /* the letter, a tab before each field, the end */
    for (size_t i = 0; i < count; i++)
        length += fields[i].text ? PyUnicode_GET_LENGTH(fields[i].text) + 2 * fields[i].has_marks : 0;
    PyObject *line = PyBytes_FromStringAndSize(NULL, length);
    if (line == NULL)
        return NULL;
    char *to = PyBytes_AS_STRING(line);
    *to++ = 'C';
    for (size_t i = 0; i < count; i++) {
        *to++ = '\t';
        if (fields[i].text == NULL)
            continue;
        size_t size = (size_t)PyUnicode_GET_LENGTH(fields[i].text);
        if (fields[i].has_marks)
            *to++ = '"';
        memcpy(to, PyUnicode_DATA(fields[i].text), size);
        to += size;
        if (fields[i].has_marks)
            *to++ = '"';
    }
    *to = '\n';
    return line;
}

static PyObject *call_line(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 4 || !PyUnicode_Check(args[0]) || !(args[1] == Py_None || PyUnicode_Check(args[1]))
        || !(args[3] == Py_None || PyUnicode_Check(args[3])))
        return PyErr_Format(PyExc_TypeError, "call_line() takes a name, a parent, a stack and an entry");
    struct field fields[4] = {{NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}};
    int failed = (fields[0].text = quoted(args[0], &fields[0].has_marks)) == NULL;
    if (!failed && args[1] != Py_None)
        failed = (fields[1].text = quoted(args[1], &fields[1].has_marks)) == NULL;
    if (!failed && args[2] != Py_None)
        failed = (fields[2].text = PyObject_Str(args[2])) == NULL;
    if (!failed && args[3] != Py_None)
        fields[3].text = Py_NewRef(args[3]);
    for (size_t i = 0; !failed && i < 4; i++)
        if (fields[i].text != NULL && !PyUnicode_IS_ASCII(fields[i].text)) {
            PyErr_SetString(PyExc_ValueError, "an entry is ASCII");
            failed = 1;
        }
    PyObject *line = failed ? NULL : joined(fields, 4);
    for (size_t i = 0; i < 4; i++)
        Py_XDECREF(fields[i].text);
    return line;
}

static int append(PyObject *entries, PyObject *name, PyObject *entry)
{
    PyObject *parts = PyDict_GetItemWithError(entries, name); /* borrowed */
    if (parts != NULL)
        return PyList_Append(parts, entry);
    parts = PyErr_Occurred() ? NULL : PyList_New(1);
    if (parts == NULL)
        return -1;
    PyList_SET_ITEM(parts, 0, Py_NewRef(entry));
    int failed = PyDict_SetItem(entries, name, parts);
    Py_DECREF(parts);
    return failed;
}

/* `entries`, `stacks`, `parents` and `names` of a journal, and a call. */
static int add_call(PyObject *const *to, PyObject *call)
{
    PyObject *name, *parent, *stack, *entry, *entries = to[0], *stacks = to[1], *parents = to[2], *names = to[3];
    if (!PyArg_ParseTuple(call, "UOOO", &name, &parent, &stack, &entry) || (name = PyDict_SetDefault(names, name, name)) == NULL)
        return -1;
    int has_entry = entry == Py_None ? 0 : PyObject_IsTrue(entry);
    if (has_entry < 0 || (has_entry && append(entries, name, entry) < 0) || (stack != Py_None && !PyDict_SetDefault(stacks, name, stack)))
        return -1;
    PyObject *known = PyDict_GetItemWithError(parents, name);
    if (PyErr_Occurred() || (known != NULL && known != Py_None))
        return PyErr_Occurred() ? -1 : 0;
    if (parent != Py_None && (parent = PyDict_SetDefault(names, parent, parent)) == NULL)
        return -1;
    return PyDict_SetItem(parents, name, parent);
}

static PyObject *add_calls(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t at = count == 6 && PyLong_Check(args[5]) ? PyLong_AsSsize_t(args[5]) : -1;
    if (at < 0 || !PyList_CheckExact(args[4]) || !PyDict_CheckExact(args[0]) || !PyDict_CheckExact(args[1]) || !PyDict_CheckExact(args[2])
        || !PyDict_CheckExact(args[3]))
        return PyErr_Format(PyExc_TypeError, "add_calls() takes four dicts, a list and a place");
    for (; at < PyList_GET_SIZE(args[4]) && PyTuple_CheckExact(PyList_GET_ITEM(args[4], at)); at++)
        if (add_call(args, PyList_GET_ITEM(args[4], at)) < 0)
            return NULL;
    return PyLong_FromSsize_t(at);
}

#define TAKES(function) (PyCFunction)(void (*)(void))function, METH_FASTCALL

static PyMethodDef METHODS[] = {
    {"call_line", TAKES(call_line), "call_line(name, parent, stack, entry)\n--\n\nAs `_call_line` of journal.py."},
    {"add_calls", TAKES(add_calls), "add_calls(entries, stack_of, parents, names, lines, at)\n--\n\nAs `_add_calls` of journal.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_journal", "Lines of calls; see journal.py.", -1, METHODS};

PyMODINIT_FUNC PyInit__journal(void)
{
    PyObject *json = PyImport_ImportModule("json.encoder");
    quote = json ? PyObject_GetAttrString(json, "encode_basestring_ascii") : NULL;
    Py_XDECREF(json);
    return quote ? PyModule_Create(&MODULE) : NULL;
}
