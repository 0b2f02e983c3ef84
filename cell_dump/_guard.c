/* Hooks whose exceptions do not reach the training: `Session.hook` and `Session.guard` in C, documented there. */

#include "_gradients.h"

/* Makes hooks of functions that collect. */
typedef struct {
    PyObject_HEAD
    PyObject *session, *before_hook, *functions, *operations; /* new */
} Guard;

typedef struct {
    PyObject_HEAD
    PyObject *guard, *work; /* new; NULL after the garbage collector has cleared it */
    vectorcallfunc call;
} Hook;

static int guard_traverse(Guard *of, visitproc visit, void *arg)
{
    Py_VISIT(of->session);
    Py_VISIT(of->before_hook);
    Py_VISIT(of->functions);
    Py_VISIT(of->operations);
    return 0;
}

static int guard_clear(Guard *of)
{
    Py_CLEAR(of->session);
    Py_CLEAR(of->before_hook);
    Py_CLEAR(of->functions);
    Py_CLEAR(of->operations);
    return 0;
}

static void guard_free(Guard *of)
{
    PyObject_GC_UnTrack(of);
    guard_clear(of);
    PyObject_GC_Del(of);
}

static PyObject *guard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"session", "before_hook", "modes", NULL};
    PyObject *session, *before_hook, *functions, *operations; /* borrowed */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO(OO)", words, &session, &before_hook, &functions, &operations))
        return NULL;
    Guard *made = (Guard *)type->tp_alloc(type, 0); /* new */
    if (made == NULL)
        return NULL;
    made->session = Py_NewRef(session);
    made->before_hook = Py_NewRef(before_hook);
    made->functions = Py_NewRef(functions);
    made->operations = Py_NewRef(operations);
    return (PyObject *)made;
}

static PyObject *hook_run(PyObject *self, PyObject *const *args, size_t count, PyObject *kwnames);

static PyObject *guard_call(Guard *of, PyObject *args, PyObject *kwargs)
{
    PyObject *work; /* borrowed */
    if (kwargs != NULL)
        return PyErr_Format(PyExc_TypeError, "a guard takes a function");
    if (!PyArg_ParseTuple(args, "O:guard", &work))
        return NULL;
    Hook *made = PyObject_GC_New(Hook, &HOOK); /* new */
    if (made == NULL)
        return NULL;
    made->guard = Py_NewRef(of);
    made->work = Py_NewRef(work);
    made->call = hook_run;
    PyObject_GC_Track(made);
    return (PyObject *)made;
}

static int hook_traverse(Hook *of, visitproc visit, void *arg)
{
    Py_VISIT(of->guard);
    Py_VISIT(of->work);
    return 0;
}

static int hook_clear(Hook *of)
{
    Py_CLEAR(of->guard);
    Py_CLEAR(of->work);
    return 0;
}

static void hook_free(Hook *of)
{
    PyObject_GC_UnTrack(of);
    hook_clear(of);
    PyObject_GC_Del(of);
}

/* Return whether a mode of the user intercepts operations now. Frameworks without such modes pass `bool`. */
static int is_intercepted(PyObject *mode)
{
    if (mode == (PyObject *)&PyBool_Type)
        return 0;
    PyObject *answer = PyObject_CallNoArgs(mode); /* new */
    int is_true = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_true;
}

/* Pass the current exception to the session, which logs it, and clear it. */
static int note(PyObject *session, PyObject *work)
{
    PyObject *type, *cause, *trace; /* new */
    PyErr_Fetch(&type, &cause, &trace);
    PyErr_NormalizeException(&type, &cause, &trace);
    if (trace != NULL) /* `note` needs it to detect interrupts */
        PyException_SetTraceback(cause, trace);
    PyObject *none = PyObject_CallMethodObjArgs(session, words.note, work, cause, NULL); /* new */
    int failed = none == NULL;
    Py_XDECREF(none);
    Py_XDECREF(type);
    Py_XDECREF(cause);
    Py_XDECREF(trace);
    return failed ? -1 : 0;
}

/* Call `work`; see `Session.guard`. */
static int guarded(PyObject *session, PyObject *work, PyObject *const *args, size_t count)
{
    PyObject *none = NULL;                                                /* new */
    PyObject *busy = PyObject_GetAttr(session, words.busy);               /* new */
    PyObject *api = busy ? PyObject_GetAttr(session, words.api) : NULL; /* new */
    int failed = 1;
    if (api == NULL || PyObject_SetAttr(session, words.busy, Py_True) < 0 || PyObject_SetAttr(session, words.api, Py_None) < 0)
        goto done;
    none = PyObject_Vectorcall(work, args, count, NULL);
    failed = none == NULL;
    if (failed && PyErr_ExceptionMatches(PyExc_Exception)) /* errors of the debugger never stop the training */
        failed = note(session, work) < 0;
    PyObject *type, *cause, *trace; /* new, or NULL without an exception */
    PyErr_Fetch(&type, &cause, &trace);
    if (PyObject_SetAttr(session, words.busy, busy) < 0 || PyObject_SetAttr(session, words.api, api) < 0)
        failed = 1;
    if (type != NULL)
        PyErr_Restore(type, cause, trace);
done:
    Py_XDECREF(none);
    Py_XDECREF(busy);
    Py_XDECREF(api);
    return failed ? -1 : 0;
}

/* Call `Session.guard` in Python, if a mode of the user intercepts operations. */
static int guarded_by_python(PyObject *session, PyObject *work, PyObject *gradients)
{
    PyObject *function = PyObject_GetAttr(session, words.guard);          /* new */
    PyObject *front = function ? PyTuple_Pack(1, work) : NULL;            /* new */
    PyObject *all = front ? PySequence_Concat(front, gradients) : NULL; /* new */
    PyObject *none = all ? PyObject_CallObject(function, all) : NULL;     /* new */
    int failed = none == NULL;
    Py_XDECREF(function);
    Py_XDECREF(front);
    Py_XDECREF(all);
    Py_XDECREF(none);
    return failed ? -1 : 0;
}

static PyObject *hook_run(PyObject *self, PyObject *const *args, size_t flagged, PyObject *kwnames)
{
    Hook *hook = (Hook *)self; /* borrowed */
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    if (hook->guard == NULL)
        Py_RETURN_NONE;
    if (kwnames && PyTuple_GET_SIZE(kwnames))
        return PyErr_Format(PyExc_TypeError, "a hook takes no keyword arguments");
    Guard *guard = (Guard *)Py_NewRef(hook->guard); /* new, as the hook may be cleared while it runs */
    PyObject *work = Py_NewRef(hook->work);         /* new */
    PyObject *session = Py_NewRef(guard->session);  /* new */
    PyObject *gradients = PyTuple_New(count);       /* new */
    PyObject *none = NULL;                          /* new */
    int failed = 1;
    if (gradients == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(gradients, i, Py_NewRef(args[i]));
    int closed = flag(session, words.closed);
    failed = closed < 0;
    if (closed)
        goto done;
    none = PyObject_CallOneArg(guard->before_hook, gradients);
    int intercepted = none ? is_intercepted(guard->functions) : -1;
    if (intercepted == 0)
        intercepted = is_intercepted(guard->operations);
    if (intercepted < 0)
        failed = 1;
    else
        failed = (intercepted ? guarded_by_python(session, work, gradients) : guarded(session, work, args, (size_t)count)) < 0;
done:
    Py_XDECREF(none);
    Py_XDECREF(gradients);
    Py_DECREF(session);
    Py_DECREF(work);
    Py_DECREF(guard);
    return none_or_error(failed);
}

static PyMemberDef HOOK_MEMBERS[] = {{"work", T_OBJECT, offsetof(Hook, work), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};

static PyObject *hook_name(Hook *of, void *Py_UNUSED(closure))
{
    return of->work ? PyObject_GetAttrString(of->work, "__name__") : PyUnicode_FromString("hook");
}

static PyGetSetDef HOOK_GETTERS[] = {{"__name__", (getter)hook_name, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

PyTypeObject GUARD = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "msprobe.cell_dump._gradients.Guard",
    .tp_doc = "Makes hooks whose exceptions do not reach the training; see `Session.hook`.",
    .tp_basicsize = sizeof(Guard),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = guard_new,
    .tp_dealloc = (destructor)guard_free,
    .tp_traverse = (traverseproc)guard_traverse,
    .tp_clear = (inquiry)guard_clear,
    .tp_call = (ternaryfunc)guard_call,
};

PyTypeObject HOOK = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "msprobe.cell_dump._gradients.Hook",
    .tp_doc = "A hook made by a `Guard`.",
    .tp_basicsize = sizeof(Hook),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_dealloc = (destructor)hook_free,
    .tp_traverse = (traverseproc)hook_traverse,
    .tp_clear = (inquiry)hook_clear,
    .tp_vectorcall_offset = offsetof(Hook, call),
    .tp_call = PyVectorcall_Call,
    .tp_members = HOOK_MEMBERS,
    .tp_getset = HOOK_GETTERS,
};
