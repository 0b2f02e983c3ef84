/* Redirects Python and C functions without replacing the function objects; see in_place.py.
 *
 * A Python function gets another code object. For a C function, its definition (`PyMethodDef`), which contains the calling
 * convention, and its `vectorcall` are replaced:
 *
 * - `builtin_function_or_method`: the C function in the definition does not change, because hash and equality of the object
 *   depend on it. The flags are set to a convention that no specialized instruction of CPython accepts (they check the flags
 *   in every call), so that all calls use `vectorcall`, which receives the object.
 * - `method_descriptor`: a bound method (`f = x.add`) is created from the definition alone. Therefore each descriptor gets
 *   its own C function from a table, whose index identifies the descriptor.
 *
 * Definitions are never freed, because bound methods may reference them.
 *
 * This extension stays for what it does, not for its speed: Python cannot redirect a C function without replacing the object.
 * Without it, such functions are replaced at their names, and a training that holds one by another name calls the original
 * (docs/en/explanation/architecture.md).
 *
 * Ownership: parameters are borrowed, objects that are returned are new.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define NEVER_INLINE __attribute__((noinline)) /* called by all functions of the table */
#else
#define NEVER_INLINE
#endif

enum { DESCRIPTORS = 2048, CONVENTION = METH_VARARGS | METH_FASTCALL | METH_NOARGS | METH_O | METH_KEYWORDS | METH_METHOD };

typedef struct {
    PyMethodDef definition; /* first member: pointers to it are pointers to the entry */
    PyMethodDef *original;  /* borrowed: of the framework, with the lifetime of the function */
    vectorcallfunc vectorcall;
    PyObject *function; /* new: never released, like the definition */
    PyObject *twin;     /* new: a copy with the original behavior */
    PyObject *call;     /* new, or NULL while the function is not redirected */
} Entry;

static PyObject *code_name, *signature_name; /* new: `__code__` and `__signature__` */
static PyObject *known; /* new: the address of each function -> a capsule of its entry */
static Entry *descriptors[DESCRIPTORS]; /* owned */
static Py_ssize_t used;

/* Return what is called instead, borrowed from the entry. */
static PyObject *target(const Entry *entry) { return entry->call ? entry->call : entry->twin; }

/* ---- redirected calls of C functions ------------------------------------------------------------------------------- */

static PyObject *through_function(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    const Entry *entry = (const Entry *)((PyCFunctionObject *)self)->m_ml;
    PyObject *call = Py_NewRef(target(entry)); /* new, as it may be replaced meanwhile */
    PyObject *result = PyObject_Vectorcall(call, args, flags, names); /* new */
    Py_DECREF(call);
    return result;
}

static PyObject *through_descriptor(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
    const Entry *entry = (const Entry *)((PyMethodDescrObject *)self)->d_method;
    PyObject *call = Py_NewRef(target(entry)); /* new, as it may be replaced meanwhile */
    PyObject *result = PyObject_Vectorcall(call, args, flags, names); /* new */
    Py_DECREF(call);
    return result;
}

NEVER_INLINE static PyObject *through_bound(const Entry *entry, PyObject *self, PyObject *args, PyObject *keywords)
{
    Py_ssize_t count = PyTuple_GET_SIZE(args);
    PyObject *all = PyTuple_New(count + 1); /* new */
    if (all == NULL)
        return NULL;
    PyTuple_SET_ITEM(all, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(all, i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
    PyObject *call = Py_NewRef(target(entry));             /* new */
    PyObject *result = PyObject_Call(call, all, keywords); /* new */
    Py_DECREF(call);
    Py_DECREF(all);
    return result;
}

#define TIMES_16(m, n) m(n##0) m(n##1) m(n##2) m(n##3) m(n##4) m(n##5) m(n##6) m(n##7) m(n##8) m(n##9) m(n##a) m(n##b) m(n##c) m(n##d) m(n##e) m(n##f)
#define TIMES_256(m, n)                                                                                                    \
    TIMES_16(m, n##0) TIMES_16(m, n##1) TIMES_16(m, n##2) TIMES_16(m, n##3) TIMES_16(m, n##4) TIMES_16(m, n##5)            \
    TIMES_16(m, n##6) TIMES_16(m, n##7) TIMES_16(m, n##8) TIMES_16(m, n##9) TIMES_16(m, n##a) TIMES_16(m, n##b)            \
    TIMES_16(m, n##c) TIMES_16(m, n##d) TIMES_16(m, n##e) TIMES_16(m, n##f)
#define TIMES_2048(m)                                                                                                      \
    TIMES_256(m, 0x0) TIMES_256(m, 0x1) TIMES_256(m, 0x2) TIMES_256(m, 0x3) TIMES_256(m, 0x4) TIMES_256(m, 0x5)            \
    TIMES_256(m, 0x6) TIMES_256(m, 0x7)

#define DEFINE(n)                                                                                                          \
    static PyObject *bound_##n(PyObject *self, PyObject *args, PyObject *keywords)                                         \
    {                                                                                                                      \
        return through_bound(descriptors[n], self, args, keywords);                                                        \
    }
TIMES_2048(DEFINE)

#define LIST(n) bound_##n,
static const PyCFunctionWithKeywords BOUND[DESCRIPTORS] = {TIMES_2048(LIST)};

/* ---- the entry of a function ---------------------------------------------------------------------------------------- */

static int is_descriptor(PyObject *function) { return Py_IS_TYPE(function, &PyMethodDescr_Type); }

static PyMethodDef **definition_of(PyObject *function)
{
    return is_descriptor(function) ? &((PyMethodDescrObject *)function)->d_method : &((PyCFunctionObject *)function)->m_ml;
}

static vectorcallfunc *vectorcall_of(PyObject *function)
{
    return is_descriptor(function) ? &((PyMethodDescrObject *)function)->vectorcall : &((PyCFunctionObject *)function)->vectorcall;
}

static PyObject *twin_of(PyObject *function, PyMethodDef *definition)
{
    if (is_descriptor(function))
        return PyDescr_NewMethod(((PyMethodDescrObject *)function)->d_common.d_type, definition);
    PyCFunctionObject *as = (PyCFunctionObject *)function;
    return PyCFunction_NewEx(definition, as->m_self, as->m_module);
}

static Entry *new_entry(PyObject *function)
{
    PyMethodDef *original = *definition_of(function);
    if (original->ml_flags & METH_METHOD || (is_descriptor(function) && used == DESCRIPTORS)) {
        PyErr_SetString(PyExc_ValueError, "this function cannot be replaced in place");
        return NULL;
    }
    Entry *entry = PyMem_Calloc(1, sizeof *entry);                           /* owned */
    PyObject *twin = entry ? twin_of(function, original) : PyErr_NoMemory(); /* new */
    if (twin == NULL) {
        PyMem_Free(entry);
        return NULL;
    }
    entry->definition = *original;
    entry->definition.ml_flags &= ~CONVENTION;
    if (is_descriptor(function)) {
        entry->definition.ml_flags |= METH_VARARGS | METH_KEYWORDS;
        entry->definition.ml_meth = (PyCFunction)(void (*)(void))BOUND[used];
        descriptors[used++] = entry;
    } else
        entry->definition.ml_flags |= METH_KEYWORDS; /* not a valid convention on its own */
    entry->original = original;
    entry->vectorcall = *vectorcall_of(function);
    entry->function = Py_NewRef(function);
    entry->twin = twin;
    return entry;
}

/* Return (borrowed) the entry of a C function, created on first use; NULL with an exception if it is not supported. */
static Entry *entry_of(PyObject *function)
{
    if (!PyCFunction_CheckExact(function) && !is_descriptor(function)) {
        PyErr_Format(PyExc_TypeError, "%.100s is not a C function", Py_TYPE(function)->tp_name);
        return NULL;
    }
    PyObject *address = PyLong_FromVoidPtr(function); /* new */
    if (address == NULL)
        return NULL;
    PyObject *capsule = Py_XNewRef(PyDict_GetItemWithError(known, address)); /* new */
    Entry *entry = NULL;                                                     /* owned by the process */
    if (capsule != NULL)
        entry = PyCapsule_GetPointer(capsule, NULL);
    else if (!PyErr_Occurred() && (entry = new_entry(function)) != NULL) {
        capsule = PyCapsule_New(entry, NULL, NULL);
        if (capsule == NULL || PyDict_SetItem(known, address, capsule) < 0)
            entry = NULL; /* not freed: its index in the table is used */
    }
    Py_XDECREF(capsule);
    Py_DECREF(address);
    return entry;
}

static int put_call(PyObject *function, PyObject *call)
{
    Entry *entry = entry_of(function);
    if (entry == NULL)
        return -1;
    PyObject *before = entry->call; /* new, or NULL */
    entry->call = call == Py_None ? NULL : Py_NewRef(call);
    if (call == Py_None) {
        *definition_of(function) = entry->original;
        *vectorcall_of(function) = entry->vectorcall;
    } else {
        *definition_of(function) = &entry->definition;
        *vectorcall_of(function) = is_descriptor(function) ? through_descriptor : through_function;
    }
    Py_XDECREF(before);
    return 0;
}

/* ---- the interface -------------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(twin_doc, "twin(function)\n--\n\n"
                       "Return a copy of a C function with its original behavior.\n\n"
                       "ValueError if the function cannot be changed in place.");

static PyObject *twin(PyObject *Py_UNUSED(module), PyObject *function)
{
    Entry *entry = entry_of(function);
    return entry ? Py_NewRef(entry->twin) : NULL;
}

/* Return whether the code of a Python function is a trampoline: its last constant is the mark. */
static int is_ours(PyFunctionObject *function, PyObject *mark)
{
    PyObject *consts = ((PyCodeObject *)function->func_code)->co_consts; /* borrowed */
    Py_ssize_t count = PyTuple_GET_SIZE(consts);
    return count > 0 && PyTuple_GET_ITEM(consts, count - 1) == mark;
}

static int is_as_its_twin(PyFunctionObject *function, PyFunctionObject *twin, PyObject *mark)
{
    return (function->func_code == twin->func_code || is_ours(function, mark)) &&
           function->func_defaults == twin->func_defaults && function->func_kwdefaults == twin->func_kwdefaults;
}

/* `signature`: the `__signature__` while the function is redirected; None if it is not required. */
static int put_code(PyObject *function, PyObject *code, PyObject *twin, PyObject *signature, PyObject *mark)
{
    int restores = code == ((PyFunctionObject *)twin)->func_code, failed = 0;
    if (restores && !is_ours((PyFunctionObject *)function, mark))
        return 0; /* changed by another library, or already restored */
    if (((PyFunctionObject *)function)->func_code != code)
        failed = PyObject_SetAttr(function, code_name, code) < 0;
    if (failed || signature == Py_None)
        return failed ? -1 : 0;
    PyObject *attributes = ((PyFunctionObject *)function)->func_dict; /* borrowed */
    if (attributes == NULL && (attributes = ((PyFunctionObject *)function)->func_dict = PyDict_New()) == NULL)
        return -1;
    PyObject *there = PyDict_GetItemWithError(attributes, signature_name); /* borrowed */
    if (there == NULL && PyErr_Occurred())
        return -1;
    if (restores && there == signature)
        return PyDict_DelItem(attributes, signature_name);
    return !restores && there == NULL ? PyDict_SetItem(attributes, signature_name, signature) : 0;
}

PyDoc_STRVAR(put_doc, "put(functions, values, twins, signatures, mark)\n--\n\n"
                      "Redirect every function to the value at its index in `values`; see `_redirect` of in_place.py.");

static PyObject *put(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    int fits = count == 5;
    for (Py_ssize_t i = 0; fits && i < 4; i++)
        fits = PyTuple_CheckExact(args[i]) && PyTuple_GET_SIZE(args[i]) == PyTuple_GET_SIZE(args[0]);
    if (!fits)
        return PyErr_Format(PyExc_TypeError, "put() takes four tuples of one length and a mark");
    Py_ssize_t functions = PyTuple_GET_SIZE(args[0]);
    for (Py_ssize_t i = 0; i < functions; i++) {
        PyObject *function = PyTuple_GET_ITEM(args[0], i), *twin = PyTuple_GET_ITEM(args[2], i); /* borrowed */
        if (PyFunction_Check(function) && PyTuple_GET_ITEM(args[1], i) != ((PyFunctionObject *)twin)->func_code &&
            !is_as_its_twin((PyFunctionObject *)function, (PyFunctionObject *)twin, args[4]))
            return Py_NewRef(function);
    }
    for (Py_ssize_t i = 0; i < functions; i++) {
        PyObject *function = PyTuple_GET_ITEM(args[0], i), *value = PyTuple_GET_ITEM(args[1], i); /* borrowed */
        int failed = PyFunction_Check(function)
                         ? put_code(function, value, PyTuple_GET_ITEM(args[2], i), PyTuple_GET_ITEM(args[3], i), args[4])
                         : put_call(function, value);
        if (failed < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"twin", twin, METH_O, twin_doc},
    {"put", (PyCFunction)(void (*)(void))put, METH_FASTCALL, put_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_in_place",
    .m_doc = "Redirects functions without replacing the objects; see in_place.py.",
    .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__in_place(void)
{
    if (known == NULL && (known = PyDict_New()) == NULL)
        return NULL;
    if (code_name == NULL && (code_name = PyUnicode_InternFromString("__code__")) == NULL)
        return NULL;
    if (signature_name == NULL && (signature_name = PyUnicode_InternFromString("__signature__")) == NULL)
        return NULL;
    return PyModule_Create(&MODULE);
}
