/* Gradient hooks on the nodes of the autograd graph: `NodeGradients` of gradient.py in C, documented there. It does the same
 * steps in the same order, so that both write the same dump, but creates fewer Python objects.
 */

#include "_gradients.h"

struct words words;
PyObject *quote, *kernel_record, *leaf_source, *code_source;

static PyTypeObject NODES;

static int watch_traverse(Watch *of, visitproc visit, void *arg)
{
    Py_VISIT(of->owner);
    Py_VISIT(of->key);
    Py_VISIT(of->node);
    for (Py_ssize_t i = 0; i < of->befores; i++)
        Py_VISIT(of->before[i].backward);
    for (Py_ssize_t i = 0; i < of->afters; i++)
        Py_VISIT(of->after[i].backward);
    return 0;
}

static void forget_calls(Watch *of)
{
    while (of->befores) {
        struct before last = of->before[--of->befores];
        Py_DECREF(last.backward);
        Py_DECREF(last.place);
        Py_XDECREF(last.passing);
    }
    while (of->afters) {
        struct after last = of->after[--of->afters];
        Py_DECREF(last.backward);
        Py_DECREF(last.places);
    }
}

static int watch_clear(Watch *of)
{
    Py_CLEAR(of->owner);
    Py_CLEAR(of->key);
    Py_CLEAR(of->node);
    forget_calls(of);
    return 0;
}

static void watch_free(Watch *of)
{
    PyObject_GC_UnTrack(of);
    watch_clear(of);
    while (of->producers)
        Py_DECREF(of->producer[--of->producers].text);
    PyMem_Free(of->before);
    PyMem_Free(of->after);
    PyMem_Free(of->producer);
    PyObject_GC_Del(of);
}

PyTypeObject WATCH = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "msprobe.cell_dump._gradients.Watch",
    .tp_basicsize = sizeof(Watch),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = (destructor)watch_free,
    .tp_traverse = (traverseproc)watch_traverse,
    .tp_clear = (inquiry)watch_clear,
};

/* Return the array, reallocated to the next power of two if it has no room for another element after `count`. NULL with an
 * exception if there is no memory; then the array is unchanged. */
void *grown(void *array, Py_ssize_t count, size_t size)
{
    if (count & (count - 1) || (count == 0 && array != NULL))
        return array;
    void *larger = PyMem_Realloc(array, (size_t)(count ? 2 * count : 1) * size);
    return larger ? larger : PyErr_NoMemory();
}

/* Remove the hooks of a node from the table, and release the node. */
static int release_node(Watch *watch)
{
    Nodes *owner = watch->owner; /* borrowed */
    if (owner != NULL && watch->key != NULL && PyDict_GetItemWithError(owner->watches, watch->key) == (PyObject *)watch
        && PyDict_DelItem(owner->watches, watch->key) < 0)
        return -1;
    Py_CLEAR(watch->key);
    Py_CLEAR(watch->node);
    return PyErr_Occurred() ? -1 : 0;
}

/* Read the sequence number of a node; nodes without one return 2^64 - 1, which is read as `NO_NODE - 1`. */
int number_of(PyObject *value /* new, or NULL with an exception */, long long *number)
{
    int is_over = 0;
    *number = value ? PyLong_AsLongLongAndOverflow(value, &is_over) : -1;
    if (is_over > 0)
        *number = NO_NODE - 1;
    Py_XDECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

int sequence_of(PyObject *node, long long *number)
{
    return number_of(PyObject_CallMethodNoArgs(node, words.sequence), number);
}

int is_true_of(PyObject *function, PyObject *value)
{
    PyObject *answer = PyObject_CallOneArg(function, value); /* new */
    int is_true = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    return is_true;
}

/* ---- when gradients arrive -------------------------------------------------------------------------------------- */

static int is_flagged(PyObject *backward, const char *name)
{
    PyObject *value = PyObject_GetAttrString(backward, name); /* new */
    int is_true = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is_true;
}

static int has_begun(PyObject *of) { return IS_OURS(of) ? ((Backward *)of)->begun : is_flagged(of, "begun"); }

static int is_done(PyObject *of) { return IS_OURS(of) ? ((Backward *)of)->done : is_flagged(of, "done"); }

static int lowest_of(PyObject *of, long long *lowest)
{
    if (!IS_OURS(of))
        return number_of(PyObject_GetAttr(of, words.lowest), lowest);
    *lowest = ((Backward *)of)->lowest;
    return 0;
}

int called(PyObject *none /* new, or NULL with an exception */)
{
    int failed = none == NULL;
    Py_XDECREF(none);
    return failed ? -1 : 0;
}

/* The methods of `Backward`, in C or of another class in Python. */
static int all_finish(PyObject *of)
{
    return IS_OURS(of) ? finish_all((Backward *)of) : called(PyObject_CallMethod(of, "finish_all", NULL));
}

static int one_arrived(PyObject *of)
{
    return IS_OURS(of) ? arrived((Backward *)of) : called(PyObject_CallMethod(of, "arrived", NULL));
}

static int arrives(PyObject *of, Arrival *take, const char *method, PyObject *place, PyObject *gradient, Py_ssize_t index, PyObject *memo, int shared)
{
    if (IS_OURS(of))
        return take((Backward *)of, place, gradient, index, memo, shared);
    PyObject *known = memo ? Py_NewRef(memo) : PyDict_New(); /* new */
    int failed = known ? called(PyObject_CallMethod(of, method, "OOnOO", place, gradient, index, known, shared ? Py_True : Py_False)) : -1;
    Py_XDECREF(known);
    return failed;
}

int expects(PyObject *of, PyObject *places, int to_leaf)
{
    if (IS_OURS(of))
        return expect((Backward *)of, places, to_leaf);
    PyObject *all = places ? Py_NewRef(places) : PyTuple_New(0);     /* new */
    PyObject *args[] = {of, all, to_leaf ? Py_True : Py_False}; /* borrowed */
    int failed = all ? called(PyObject_VectorcallMethod(words.expect, args, 3, NULL)) : -1;
    Py_XDECREF(all);
    return failed;
}

/* Remove finished calls from `begun`. */
static int forget_done(Nodes *nodes)
{
    PyObject *left = PyList_New(0); /* new */
    int failed = left == NULL;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(nodes->begun); i++) {
        PyObject *backward = PyList_GET_ITEM(nodes->begun, i); /* borrowed */
        int done = is_done(backward);
        failed = done < 0 || (!done && PyList_Append(left, backward) < 0);
    }
    if (!failed)
        Py_SETREF(nodes->begun, Py_NewRef(left));
    Py_XDECREF(left);
    return failed ? -1 : 0;
}

/* See `NodeGradients._finish_above`. */
static int finish_above(Nodes *nodes, long long sequence)
{
    int is_any_done = 0, failed = 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(nodes->begun); i++) {
        PyObject *backward = Py_NewRef(PyList_GET_ITEM(nodes->begun, i)); /* new */
        int done = is_done(backward);
        failed = done < 0;
        if (done == 0) {
            long long lowest;
            failed = lowest_of(backward, &lowest) < 0;
            if (!failed && sequence < lowest)
                failed = all_finish(backward) < 0 || (done = is_done(backward)) < 0;
        }
        is_any_done |= done > 0;
        Py_DECREF(backward);
    }
    if (!failed && is_any_done)
        failed = forget_done(nodes) < 0;
    return failed ? -1 : 0;
}

/* Pass the gradient of a result to its call; `memo` may be NULL. */
static int passed_on(Nodes *nodes, const struct before *to, PyObject *gradients, PyObject *memo)
{
    PyObject *gradient = PySequence_GetItem(gradients, to->index); /* new */
    int begun = gradient ? has_begun(to->backward) : -1, failed = begun < 0;
    if (begun == 0)
        failed = PyList_Append(nodes->begun, to->backward) < 0;
    failed = failed || arrives(to->backward, incoming, "incoming", to->place, gradient, to->index, memo, to->shared) < 0;
    for (Py_ssize_t i = 0; !failed && to->passing && i < PyTuple_GET_SIZE(to->passing); i++)
        failed = arrives(to->backward, contribute, "contribute", PyTuple_GET_ITEM(to->passing, i), gradient, to->index, memo, 1) < 0;
    Py_XDECREF(gradient);
    return failed || one_arrived(to->backward) < 0 ? -1 : 0;
}

/* The prehook of a node; see `NodeGradients._incoming`. */
static PyObject *watch_incoming(PyObject *self, PyObject *gradients)
{
    Watch *watch = (Watch *)self; /* borrowed */
    PyObject *memo = NULL;        /* new, or NULL if it is not needed */
    int failed = 0;
    if (watch->owner == NULL)
        Py_RETURN_NONE;
    Nodes *nodes = (Nodes *)Py_NewRef(watch->owner); /* new, as the watch may be cleared in the meantime */
    if (!nodes->running) {
        nodes->running = 1;
        failed = called(PyObject_CallOneArg(nodes->when_backward_ends, nodes->final)) < 0;
    }
    failed = failed || finish_above(nodes, watch->sequence) < 0 || (!watch->afters && release_node(watch) < 0);
    if (failed)
        goto done;
    if (watch->befores > 1 || (watch->befores && watch->before[0].passing)) {
        memo = PyDict_New();
        failed = memo == NULL;
    }
    for (Py_ssize_t i = watch->befores; !failed && i-- > 0;) {
        if (i >= watch->befores) /* removed in the meantime */
            continue;
        struct before to = watch->before[i];
        Py_INCREF(to.backward);
        Py_INCREF(to.place);
        Py_XINCREF(to.passing);
        failed = passed_on(nodes, &to, gradients, memo) < 0;
        Py_DECREF(to.backward);
        Py_DECREF(to.place);
        Py_XDECREF(to.passing);
    }
done:
    Py_XDECREF(memo);
    Py_DECREF(nodes);
    return none_or_error(failed);
}

/* Pass the gradient of arguments to their call; `memo` may be NULL. */
static int contributed(const struct after *to, PyObject *gradients, PyObject *memo)
{
    PyObject *gradient = NULL; /* new */
    int failed = 0;
    if (PyTuple_GET_SIZE(to->places)) {
        gradient = PySequence_GetItem(gradients, to->slot);
        failed = gradient == NULL;
    }
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(to->places); i++)
        failed = arrives(to->backward, contribute, "contribute", PyTuple_GET_ITEM(to->places, i), gradient, to->slot, memo, to->shared) < 0;
    Py_XDECREF(gradient);
    return failed || one_arrived(to->backward) < 0 ? -1 : 0;
}

/* The hook of a node; see `NodeGradients._contributed`. */
static PyObject *watch_contributed(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Watch *watch = (Watch *)self; /* borrowed */
    PyObject *memo = NULL;        /* new, or NULL if it is not needed */
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "a hook of a node takes 2 arguments, not %zd", count);
    int failed = release_node(watch) < 0;
    if (!failed && (watch->afters > 1 || (watch->afters && PyTuple_GET_SIZE(watch->after[0].places) > 1))) {
        memo = PyDict_New();
        failed = memo == NULL;
    }
    for (Py_ssize_t i = 0; !failed && i < watch->afters; i++) {
        struct after to = watch->after[i];
        Py_INCREF(to.backward);
        Py_INCREF(to.places);
        failed = contributed(&to, args[0], memo) < 0;
        Py_DECREF(to.backward);
        Py_DECREF(to.places);
    }
    Py_XDECREF(memo);
    return none_or_error(failed);
}

PyMethodDef INCOMING = {"_incoming", watch_incoming, METH_O, NULL};
PyMethodDef CONTRIBUTED = {"_contributed", TAKES(watch_contributed, METH_FASTCALL), NULL};

static PyObject *nodes_ended(PyObject *self, PyObject *Py_UNUSED(none))
{
    ((Nodes *)self)->running = 0;
    return PyObject_CallNoArgs(((Nodes *)self)->flush);
}

static PyMethodDef ENDED = {"_ended", nodes_ended, METH_NOARGS, NULL};

static PyObject *nodes_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"graph", "hook", "flush", NULL};
    PyObject *graph, *hook, *flush; /* borrowed */
    Nodes *made = NULL;             /* new */
    PyObject *ended = NULL;         /* new */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO", words, &graph, &hook, &flush))
        goto done;
    made = (Nodes *)type->tp_alloc(type, 0);
    if (made == NULL)
        goto done;
    const char *names[] = {"tensor", "name_of", "node_of", "index_of", "identity", "is_leaf", "probe", "when_backward_ends"};
    PyObject **to = &made->tensor;
    int failed = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        failed |= (to[i] = PyObject_GetAttrString(graph, names[i])) == NULL;
    made->make_hook = Py_NewRef(hook);
    made->flush = Py_NewRef(flush);
    made->watches = PyDict_New();
    made->begun = PyList_New(0);
    ended = failed ? NULL : PyCFunction_New(&ENDED, (PyObject *)made);
    made->final = ended ? PyObject_CallOneArg(hook, ended) : NULL; /* kept, because the framework may release its last reference without the GIL */
    if (!made->final || !made->watches || !made->begun)
        Py_CLEAR(made);
done:
    Py_XDECREF(ended);
    return (PyObject *)made;
}

#define HELD_BY_NODES(of) \
    PyObject **held[] = {&of->tensor, &of->name_of, &of->node_of, &of->index_of, &of->identity, &of->is_leaf, &of->probe, \
                         &of->when_backward_ends, &of->make_hook, &of->flush, &of->final, &of->watches, &of->begun}

static int nodes_traverse(Nodes *of, visitproc visit, void *arg)
{
    HELD_BY_NODES(of);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        Py_VISIT(*held[i]);
    return 0;
}

static int nodes_clear(Nodes *of)
{
    HELD_BY_NODES(of);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        Py_CLEAR(*held[i]);
    return 0;
}

static void nodes_free(Nodes *of)
{
    PyObject_GC_UnTrack(of);
    if (of->weak)
        PyObject_ClearWeakRefs((PyObject *)of);
    nodes_clear(of);
    PyObject_GC_Del(of);
}

static PyObject *nodes_forget(Nodes *of, PyObject *Py_UNUSED(none))
{
    PyObject *watches = of->watches; /* new, after it has been replaced */
    PyObject *key, *watch;           /* borrowed */
    Py_ssize_t at = 0;
    if ((of->watches = PyDict_New()) == NULL) {
        of->watches = watches;
        return NULL;
    }
    while (PyDict_Next(watches, &at, &key, &watch)) { /* no other code uses this dict */
        Py_CLEAR(((Watch *)watch)->key);
        Py_CLEAR(((Watch *)watch)->node);
        forget_calls((Watch *)watch);
    }
    Py_DECREF(watches);
    of->running = 0;
    return none_or_error(PyList_SetSlice(of->begun, 0, PyList_GET_SIZE(of->begun), NULL));
}

static PyObject *nodes_rest(Nodes *of, PyObject *Py_UNUSED(none))
{
    of->running = 0;
    Py_RETURN_NONE;
}

static PyMethodDef NODES_METHODS[] = {
    {"inputs", TAKES(nodes_inputs, METH_O), NULL},   {"probe", TAKES(nodes_probe, METH_O), NULL},
    {"place", TAKES(nodes_place, METH_FASTCALL), NULL}, {"notice", TAKES(nodes_notice, METH_O), NULL},
    {"forget", TAKES(nodes_forget, METH_NOARGS), NULL}, {"rest", TAKES(nodes_rest, METH_NOARGS), NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef NODES_MEMBERS[] = {{"running", T_BOOL, offsetof(Nodes, running), READONLY, NULL}, {NULL, 0, 0, 0, NULL}};

static PyTypeObject NODES = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "msprobe.cell_dump._gradients.Nodes",
    .tp_doc = "The class `NodeGradients` of gradient.py in C.",
    .tp_basicsize = sizeof(Nodes),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = nodes_new,
    .tp_dealloc = (destructor)nodes_free,
    .tp_traverse = (traverseproc)nodes_traverse,
    .tp_clear = (inquiry)nodes_clear,
    .tp_weaklistoffset = offsetof(Nodes, weak),
    .tp_methods = NODES_METHODS,
    .tp_members = NODES_MEMBERS,
};

static PyMethodDef METHODS[] = {
    {"skeletons", TAKES(skeletons, METH_FASTCALL), skeletons_doc},
    {"insistent", insistent, METH_O, insistent_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_gradients",
    .m_doc = "Gradients of calls; see backward.py and gradient.py.",
    .m_size = -1,
    .m_methods = METHODS,
};

/* Create an interned text; new, never released. */
static int named(PyObject **word, const char *text) { return (*word = PyUnicode_InternFromString(text)) != NULL; }

static int name_all(void)
{
    return named(&words.is_quick, "_is_quick") && named(&words.reader, "_reader") && named(&words.tensor, "tensor")
        && named(&words.saves, "saves") && named(&words.begin_backward, "begin_backward")
        && named(&words.end_backward, "end_backward") && named(&words.collects_input, "collects_backward_input")
        && named(&words.collects_output, "collects_backward_output") && named(&words.busy, "busy") && named(&words.api, "_api")
        && named(&words.note, "note") && named(&words.closed, "closed") && named(&words.guard, "guard")
        && named(&words.keeps_backwards, "keeps_backwards")
        && named(&words.next_functions, "next_functions") && named(&words.sequence, "_sequence_nr")
        && named(&words.prehook, "register_prehook") && named(&words.hook, "register_hook") && named(&words.lowest, "lowest")
        && named(&words.expect, "expect");
}

PyMODINIT_FUNC PyInit__gradients(void)
{
    PyTypeObject *types[] = {&PART, &BACKWARD, &GUARD, &HOOK, &WATCH, &NODES};
    PyObject *module = NULL, *kernel = NULL;                                     /* new */
    PyObject *json = PyImport_ImportModule("json.encoder");                      /* new */
    quote = json ? PyObject_GetAttrString(json, "encode_basestring_ascii") : NULL;
    if (quote == NULL || !name_all() || !named(&leaf_source, "\"leaf\"") || !named(&code_source, "\"code\""))
        goto done;
    kernel = PyImport_ImportModule("msprobe.base._statistic");
    kernel_record = kernel ? PyObject_GetAttrString(kernel, "record") : NULL;
    PyErr_Clear(); /* without the kernel the describer reads the tensors */
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) < 0)
            goto done;
    module = PyModule_Create(&MODULE);
    if (module != NULL
        && (PyModule_AddObjectRef(module, "Backward", (PyObject *)&BACKWARD) < 0 || PyModule_AddObjectRef(module, "Guard", (PyObject *)&GUARD) < 0
            || PyModule_AddObjectRef(module, "Nodes", (PyObject *)&NODES) < 0))
        Py_CLEAR(module);
done:
    Py_XDECREF(json);
    Py_XDECREF(kernel);
    return module;
}
