/* Hooks that the training does not feel: what `Session.hook` and `Session.guard` do, and is read there. */

#include "_gradients.h"

/* Makes hooks of pieces of collecting. */
typedef struct {
    PyObject_HEAD
    PyObject *session, *before_hook, *functions, *operations;
} Guard;

typedef struct {
    PyObject_HEAD
    PyObject *guard, *work;
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
    PyObject *session, *before_hook, *functions, *operations;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO(OO)", words, &session, &before_hook, &functions, &operations))
        return NULL;
    Guard *made = (Guard *)type->tp_alloc(type, 0);
    if (made == NULL)
        return NULL;
    made->session = Py_NewRef(session), made->before_hook = Py_NewRef(before_hook);
    made->functions = Py_NewRef(functions), made->operations = Py_NewRef(operations);
    return (PyObject *)made;
}

static PyObject *hook_run(PyObject *self, PyObject *const *args, size_t count, PyObject *kwnames);

static PyObject *guard_call(Guard *of, PyObject *args, PyObject *kwargs)
{
    PyObject *work;
    if (kwargs != NULL || !PyArg_ParseTuple(args, "O:guard", &work))
        return kwargs ? PyErr_Format(PyExc_TypeError, "a guard takes a function") : NULL;
    Hook *made = PyObject_GC_New(Hook, &HOOK);
    if (made == NULL)
        return NULL;
    made->guard = Py_NewRef(of), made->work = Py_NewRef(work), made->call = hook_run;
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

/* Whether a mode of the user sees what runs now; `bool`, which frameworks without such modes give, is not asked. */
static int is_seen(PyObject *mode)
{
    if (mode == (PyObject *)&PyBool_Type)
        return 0;
    PyObject *answer = PyObject_CallNoArgs(mode);
    int is_true = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_true;
}

/* Do the work as `Session.guard` does. */
static int guarded(PyObject *session, PyObject *work, PyObject *const *args, size_t count)
{
    PyObject *busy = PyObject_GetAttr(session, words.busy), *api = busy ? PyObject_GetAttr(session, words.api) : NULL;
    int failed = api == NULL || PyObject_SetAttr(session, words.busy, Py_True) < 0 || PyObject_SetAttr(session, words.api, Py_None) < 0;
    if (!failed) {
        PyObject *none = PyObject_Vectorcall(work, args, count, NULL);
        failed = none == NULL;
        Py_XDECREF(none);
        if (failed && PyErr_ExceptionMatches(PyExc_Exception)) { /* a debugger never stops the training because of itself */
            PyObject *type, *cause, *trace;
            PyErr_Fetch(&type, &cause, &trace);
            PyErr_NormalizeException(&type, &cause, &trace);
            if (trace != NULL) /* by which `note` knows an interrupt */
                PyException_SetTraceback(cause, trace);
            none = PyObject_CallMethodObjArgs(session, words.note, work, cause, NULL);
            failed = none == NULL;
            Py_XDECREF(none);
            Py_XDECREF(type);
            Py_XDECREF(cause);
            Py_XDECREF(trace);
        }
        PyObject *type, *cause, *trace;
        PyErr_Fetch(&type, &cause, &trace);
        if (PyObject_SetAttr(session, words.busy, busy) < 0 || PyObject_SetAttr(session, words.api, api) < 0)
            failed = 1;
        if (type != NULL)
            PyErr_Restore(type, cause, trace);
    }
    Py_XDECREF(busy);
    Py_XDECREF(api);
    return failed ? -1 : 0;
}

static PyObject *hook_run(PyObject *self, PyObject *const *args, size_t flagged, PyObject *kwnames)
{
    Hook *hook = (Hook *)self;
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    if (hook->guard == NULL || (kwnames && PyTuple_GET_SIZE(kwnames)))
        return hook->guard ? PyErr_Format(PyExc_TypeError, "a hook takes no keyword arguments") : Py_NewRef(Py_None);
    Guard *guard = (Guard *)Py_NewRef(hook->guard);
    PyObject *work = Py_NewRef(hook->work), *session = Py_NewRef(guard->session), *gradients = PyTuple_New(count);
    for (Py_ssize_t i = 0; gradients && i < count; i++)
        PyTuple_SET_ITEM(gradients, i, Py_NewRef(args[i]));
    int closed = gradients ? flag(session, words.closed) : -1;
    PyObject *none = closed == 0 ? PyObject_CallOneArg(guard->before_hook, gradients) : NULL;
    int failed = closed < 0 || (closed == 0 && none == NULL), seen = !failed && closed == 0 ? is_seen(guard->functions) : 0;
    if (!failed && closed == 0 && seen == 0)
        seen = is_seen(guard->operations);
    Py_XDECREF(none);
    failed = failed || seen < 0;
    if (seen > 0) {
        PyObject *function = PyObject_GetAttr(session, words.guard), *front = function ? PyTuple_Pack(1, work) : NULL;
        PyObject *all = front ? PySequence_Concat(front, gradients) : NULL;
        none = all ? PyObject_CallObject(function, all) : NULL;
        failed = none == NULL;
        Py_XDECREF(function);
        Py_XDECREF(front);
        Py_XDECREF(all);
        Py_XDECREF(none);
    } else if (closed == 0 && !failed)
        failed = guarded(session, work, args, (size_t)count);
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
    .tp_doc = "Makes of a piece of collecting a hook that the training does not feel; see `Session.hook`.",
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
