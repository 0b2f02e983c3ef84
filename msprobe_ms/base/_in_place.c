/* Functions of Python and of C that call something else while they stay the same objects; see in_place.py.
 *
 * A function of Python gets another code object. Of a function of C the definition (`PyMethodDef`) is exchanged, which says
 * how it is called, and the entry by which it is called (`vectorcall`):
 *
 * - `builtin_function_or_method`. The C function in the definition stays, for the hash and the equality of the object are
 *   made of it. The flags become a convention that no specialised instruction of CPython accepts, each of which looks at
 *   the flags every time; so every call arrives at `vectorcall`, which receives the object.
 * - `method_descriptor`. What is bound to an object (`f = x.add`) is made from the definition alone. So there is a C
 *   function for each of them, from a table: it knows by its place in it which descriptor it belongs to.
 *
 * Definitions are never freed: a bound method may hold one as long as it likes.
 *
 * This extension stays for what it does, not for its speed: Python cannot make a function of C call something else while it
 * stays the same object. Without it such functions are replaced at their names, and a training that holds one by another
 * name calls the original (docs/en/explanation/architecture.md).
 *
 * Ownership: parameters are borrowed, objects that are returned are new.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define NEVER_INLINE __attribute__((noinline)) /* it is called from every place of the table */
#else
#define NEVER_INLINE
#endif

enum { DESCRIPTORS = 2048, CONVENTION = METH_VARARGS | METH_FASTCALL | METH_NOARGS | METH_O | METH_KEYWORDS | METH_METHOD };

typedef struct {
    PyMethodDef definition; /* first: a pointer to it is one to the whole */
    PyMethodDef *original;  /* the framework's; lives as long as the function */
    vectorcallfunc vectorcall;
    PyObject *function; /* new: kept alive for ever, as the definition is */
    PyObject *twin;     /* new: does what the function did */
    PyObject *call;     /* new, or NULL where the function is as it was */
} Entry;

static PyObject *code_name, *signature_name; /* new: `__code__` and `__signature__` */
static PyObject *known; /* new: the address of each function -> a capsule of its entry */
static Entry *descriptors[DESCRIPTORS]; /* owned */
static Py_ssize_t used;

/* Return what is called instead, borrowed from the entry. */
static PyObject *target(const Entry *entry) { return entry->call ? entry->call : entry->twin; }

/* ---- what a function of C calls ------------------------------------------------------------------------------------ */

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
        entry->definition.ml_flags |= METH_KEYWORDS; /* alone, it is nobody's convention */
    entry->original = original;
    entry->vectorcall = *vectorcall_of(function);
    entry->function = Py_NewRef(function);
    entry->twin = twin;
    return entry;
}

/* The entry of a function of C, made when it is asked for first; NULL with an exception where there can be none. */
static Entry *entry_of(PyObject *function)
{
    if (!PyCFunction_CheckExact(function) && !is_descriptor(function)) {
        PyErr_Format(PyExc_TypeError, "%.100s is not a function of C", Py_TYPE(function)->tp_name);
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
            entry = NULL; /* it stays allocated: its place in the table is taken */
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
                       "Return a function of C that does what `function`, also of C, does while nothing is in its place.\n\n"
                       "ValueError where it cannot be replaced in place.");

static PyObject *twin(PyObject *Py_UNUSED(module), PyObject *function)
{
    Entry *entry = entry_of(function);
    return entry ? Py_NewRef(entry->twin) : NULL;
}

/* Whether the code of a function of Python is one of ours: its last constant is the mark. */
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

/* `signature`: what `inspect.signature` is to answer while the code is ours; None where it finds the answer elsewhere. */
static int put_code(PyObject *function, PyObject *code, PyObject *twin, PyObject *signature, PyObject *mark)
{
    int restores = code == ((PyFunctionObject *)twin)->func_code, failed = 0;
    if (restores && !is_ours((PyFunctionObject *)function, mark))
        return 0; /* somebody else's, or in place already */
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
                      "Have every function call what stands at its place in `values`, all at once; as `_put` of in_place.py.");

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
    .m_doc = "Functions that call something else and stay the same objects; see in_place.py.",
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
