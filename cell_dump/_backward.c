/* The backward pass of a call, from its first gradient to its last: the class `Backward` of backward.py in C, documented there. */

#include "_gradients.h"

/* A growing buffer for JSON in UTF-8. */
struct bytes {
    char *at; /* owned */
    Py_ssize_t length, room;
    int failed; /* whether an exception is set */
};

static void add(struct bytes *to, const char *text, Py_ssize_t length)
{
    if (to->failed)
        return;
    if (to->length + length > to->room) {
        Py_ssize_t room = 2 * (to->length + length) + 256;
        char *at = PyMem_Realloc(to->at, (size_t)room);
        if (at == NULL) {
            PyErr_NoMemory();
            to->failed = 1;
            return;
        }
        to->at = at;
        to->room = room;
    }
    memcpy(to->at + to->length, text, (size_t)length);
    to->length += length;
}

static void add_text(struct bytes *to, PyObject *text)
{
    Py_ssize_t length;
    const char *letters = PyUnicode_AsUTF8AndSize(text, &length); /* borrowed from the text */
    if (letters == NULL)
        to->failed = 1;
    else
        add(to, letters, length);
}

#define ADD(to, literal) add(to, literal, (Py_ssize_t)sizeof(literal) - 1)

/* Return the bytes as a text, and free them. */
static PyObject *text_of(struct bytes *from)
{
    PyObject *made = from->failed ? NULL : PyUnicode_DecodeUTF8(from->at, from->length, NULL); /* new */
    PyMem_Free(from->at);
    from->at = NULL;
    return made;
}

int flag(PyObject *of, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(of, name); /* new */
    int is_true = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is_true;
}

/* Return (new) a function of backward.py, for rare cases. */
PyObject *of_python(const char *name)
{
    PyObject *module = PyImport_ImportModule("msprobe.cell_dump.backward");          /* new */
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL; /* new */
    Py_XDECREF(module);
    return function;
}

PyObject *none_or_error(int failed)
{
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* Gradients expected and received for one argument. It cannot be part of a reference cycle, so it needs no traversal. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t expected, parts;
    int to_leaf, shared;
    PyObject *dtype, *record, *total; /* new, or NULL */
} Part;

static void part_free(Part *part)
{
    Py_XDECREF(part->dtype);
    Py_XDECREF(part->record);
    Py_XDECREF(part->total);
    PyObject_Free(part);
}

PyTypeObject PART = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "msprobe.cell_dump._gradients.Part",
    .tp_basicsize = sizeof(Part),
    .tp_dealloc = (destructor)part_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static int backward_traverse(Backward *of, visitproc visit, void *arg)
{
    Py_VISIT(of->session);
    Py_VISIT(of->describer);
    Py_VISIT(of->above);
    Py_VISIT(of->inner);
    return 0;
}

static int backward_clear(Backward *of)
{
    Py_CLEAR(of->session);
    Py_CLEAR(of->describer);
    Py_CLEAR(of->above);
    Py_CLEAR(of->inner);
    return 0;
}

static void backward_free(Backward *of)
{
    PyObject **held[] = {&of->name, &of->at, &of->incoming, &of->expected, &of->outgoing, &of->arguments, &of->results};
    PyObject_GC_UnTrack(of);
    backward_clear(of);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        Py_CLEAR(*held[i]);
    PyObject_GC_Del(of);
}

static PyObject *backward_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"name", "above", "session", "describer", "at", NULL};
    PyObject *name, *above, *session, *describer, *at = NULL; /* borrowed */
    Backward *made = NULL;                                    /* new */
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOOO|U", words, &name, &above, &session, &describer, &at))
        goto done;
    if (above != Py_None && !IS_OURS(above)) {
        PyErr_SetString(PyExc_TypeError, "`above` is a Backward, or None");
        goto done;
    }
    made = (Backward *)type->tp_alloc(type, 0);
    if (made == NULL)
        goto done;
    made->name = Py_NewRef(name);
    made->session = Py_NewRef(session);
    made->describer = Py_NewRef(describer);
    made->above = above == Py_None ? NULL : Py_NewRef(above);
    made->lowest = -1;
    made->at = at ? Py_NewRef(at) : PyUnicode_New(0, 0);
    if (made->at == NULL)
        Py_CLEAR(made);
done:
    return (PyObject *)made;
}

/* Return the part of an argument, borrowed from `*in`, which is made where it is NULL. An argument without one gets
 * `known`, or where that is NULL a new one. */
static Part *part_in(PyObject **in, PyObject *place, Part *known)
{
    Part *part = NULL; /* borrowed from `*in` in the end */
    Part *made = NULL; /* new */
    if (*in == NULL && (*in = PyDict_New()) == NULL)
        goto done;
    part = (Part *)PyDict_GetItemWithError(*in, place);
    if (part != NULL || PyErr_Occurred())
        goto done;
    if (known != NULL)
        made = (Part *)Py_NewRef(known);
    else if ((made = PyObject_New(Part, &PART)) != NULL) {
        made->expected = made->parts = 0;
        made->to_leaf = made->shared = 0;
        made->dtype = made->record = made->total = NULL;
    }
    if (made != NULL && PyDict_SetItem(*in, place, (PyObject *)made) == 0)
        part = made;
done:
    Py_XDECREF(made);
    return part;
}

int expect(Backward *of, PyObject *places, int to_leaf)
{
    int failed = 0;
    PyObject *all = NULL; /* new */
    of->waiting++;
    if (places == NULL)
        goto done;
    all = PySequence_Fast(places, "places are a sequence");
    failed = all == NULL;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(all); i++) {
        Part *part = part_in(&of->expected, PySequence_Fast_GET_ITEM(all, i), NULL); /* borrowed */
        failed = part == NULL;
        if (!failed) {
            part->expected++;
            part->to_leaf |= to_leaf;
        }
    }
done:
    Py_XDECREF(all);
    return failed ? -1 : 0;
}

static int come_late(Backward *of, const char *side, PyObject *place)
{
    static const char CAUSE[] = "a gradient arrived after the backward pass of the call had ended, as with a second backward pass";
    PyObject *part = PyUnicode_FromFormat("%s.%U", side, place);                                                    /* new */
    PyObject *none = part ? PyObject_CallMethod(of->describer, "lost", "OOs", of->name, part, CAUSE) : NULL; /* new */
    int failed = none == NULL;
    Py_XDECREF(part);
    Py_XDECREF(none);
    return failed ? -1 : 0;
}

/* Return (new) a record marked as the sum over every user of the tensor; null is returned as it is. */
static PyObject *accumulated(PyObject *record /* new, or NULL with an exception */)
{
    PyObject *made = record; /* new */
    if (record == NULL || PyUnicode_CompareWithASCIIString(record, "null") == 0)
        goto done;
    struct bytes text = {0};
    add_text(&text, record);
    text.length -= !text.failed; /* without the closing brace */
    ADD(&text, ",\"gradient\":\"accumulated\"}");
    made = text_of(&text);
    Py_DECREF(record);
done:
    return made;
}

static PyObject *described(Backward *of, PyObject *gradient, const char *side, PyObject *place)
{
    PyObject *reader = NULL, *part = NULL, *made = NULL; /* new */
    int is_quick = kernel_record ? flag(of->describer, words.is_quick) : 0;
    if (is_quick < 0)
        goto done;
    if (is_quick) {
        reader = PyObject_GetAttr(of->describer, words.reader);
        PyObject *both[] = {gradient, reader}; /* borrowed */
        made = reader ? PyObject_Vectorcall(kernel_record, both, 2, NULL) : NULL;
        if (made != Py_None)
            goto done;
        Py_CLEAR(made);
    }
    part = PyUnicode_FromFormat("%s.%U", side, place);
    PyObject *args[] = {of->describer, gradient, of->name, part}; /* borrowed */
    made = part ? PyObject_VectorcallMethod(words.tensor, args, 4, NULL) : NULL;
done:
    Py_XDECREF(reader);
    Py_XDECREF(part);
    return made;
}

/* Return (new) the record of a gradient. All calls with hooks on the same node share it: `memo`, a dict or NULL, has it by index. */
static PyObject *record_of(Backward *of, PyObject *gradient, const char *side, PyObject *place, Py_ssize_t index, PyObject *memo)
{
    PyObject *key = NULL, *made = NULL; /* new */
    int saves = memo ? flag(of->describer, words.saves) : 1; /* then each record has a separate file */
    if (saves < 0)
        goto done;
    if (saves) {
        made = described(of, gradient, side, place);
        goto done;
    }
    key = PyLong_FromSsize_t(index);
    if (key == NULL)
        goto done;
    made = Py_XNewRef(PyDict_GetItemWithError(memo, key));
    if (made != NULL || PyErr_Occurred())
        goto done;
    made = described(of, gradient, side, place);
    if (made != NULL && PyDict_SetItem(memo, key, made) < 0)
        Py_CLEAR(made);
done:
    Py_XDECREF(key);
    return made;
}

/* Query the session once whether the gradients of this backward pass are kept. */
static int begin(Backward *of)
{
    PyObject *kept = NULL; /* new */
    of->begun = 1;
    int is_kept = flag(of->session, words.keeps_backwards);
    if (is_kept == 0) {
        kept = PyObject_CallMethodOneArg(of->session, words.begin_backward, (PyObject *)of);
        is_kept = kept ? PyObject_IsTrue(kept) : -1;
    }
    if (is_kept >= 0)
        of->kept = (char)is_kept;
    Py_XDECREF(kept);
    return is_kept < 0 ? -1 : 0;
}

int incoming(Backward *of, PyObject *place, PyObject *gradient, Py_ssize_t index, PyObject *memo, int shared)
{
    PyObject *record = NULL; /* new */
    int failed = 0;
    if (of->done) {
        failed = come_late(of, "input", place) < 0;
        goto done;
    }
    if (!of->begun && begin(of) < 0) {
        failed = 1;
        goto done;
    }
    int collects = of->kept && gradient != Py_None ? flag(of->session, words.collects_input) : 0;
    failed = collects < 0;
    if (collects <= 0)
        goto done;
    record = record_of(of, gradient, "input", place, index, memo);
    if (shared)
        record = accumulated(record);
    if (record && of->incoming == NULL)
        of->incoming = PyDict_New();
    failed = record == NULL || of->incoming == NULL || PyDict_SetItem(of->incoming, place, record) < 0;
done:
    Py_XDECREF(record);
    return failed ? -1 : 0;
}

/* Add an array to the sum of a part. */
static int sum_up(Backward *of, Part *part, PyObject *gradient)
{
    PyObject *array = NULL, *summed = NULL, *total = NULL;                            /* new */
    PyObject *dtype = PyObject_CallMethod(of->describer, "dtype", "O", gradient); /* new */
    if (dtype == NULL)
        goto done;
    Py_XSETREF(part->dtype, Py_NewRef(dtype));
    array = PyObject_CallMethod(of->describer, "elements", "O", gradient);
    summed = array ? of_python("summed") : NULL;
    total = summed ? PyObject_CallFunctionObjArgs(summed, part->total ? part->total : Py_None, array, NULL) : NULL;
    if (total != NULL)
        Py_XSETREF(part->total, Py_NewRef(total));
done:;
    int failed = total == NULL;
    Py_XDECREF(dtype);
    Py_XDECREF(array);
    Py_XDECREF(summed);
    Py_XDECREF(total);
    return failed ? -1 : 0;
}

int contribute(Backward *of, PyObject *place, PyObject *gradient, Py_ssize_t index, PyObject *memo, int shared)
{
    PyObject *record = NULL; /* new */
    Part *part = NULL;       /* new */
    int failed = 0;
    if (of->done) {
        failed = come_late(of, "output", place) < 0;
        goto done;
    }
    Part *known = of->expected ? (Part *)PyDict_GetItemWithError(of->expected, place) : NULL; /* borrowed */
    part = PyErr_Occurred() ? NULL : (Part *)Py_XNewRef(part_in(&of->outgoing, place, known));
    if (part == NULL) {
        failed = 1;
        goto done;
    }
    part->shared |= shared;
    if (gradient == Py_None)
        goto done;
    part->parts++;
    int collects = of->kept ? flag(of->session, words.collects_output) : 0;
    failed = collects < 0;
    if (collects <= 0)
        goto done;
    if (part->expected > 1)
        failed = sum_up(of, part, gradient) < 0;
    else {
        record = record_of(of, gradient, "output", place, index, memo);
        failed = record == NULL;
        if (!failed)
            Py_XSETREF(part->record, Py_NewRef(record));
    }
done:
    Py_XDECREF(part);
    Py_XDECREF(record);
    return failed ? -1 : 0;
}

/* Return (new) the record of the gradient of an argument. */
static PyObject *gradient_of(Backward *of, PyObject *place, Part *part)
{
    PyObject *kind = NULL, *at = NULL, *record; /* new */
    if (part->to_leaf && part->parts < part->expected) {
        record = PyUnicode_FromString("null"); /* not required: a node computed it in addition to others */
        goto done;
    }
    if (part->total != NULL) {
        kind = PyObject_GetAttrString(of->describer, "kind");
        at = kind ? PyUnicode_FromFormat("output.%U", place) : NULL;
        record = at ? PyObject_CallMethod(of->describer, "array", "OOOOO", part->total, of->name, at, kind, part->dtype) : NULL;
    } else
        record = part->record ? Py_NewRef(part->record) : PyUnicode_FromString("null");
    if (part->shared)
        record = accumulated(record);
done:
    Py_XDECREF(kind);
    Py_XDECREF(at);
    return record;
}

/* Add a container inside a value, filled by Python. */
static void add_filled_by_python(struct bytes *to, PyObject *shape, PyObject *records)
{
    PyObject *fill = of_python("fill");                                                                             /* new */
    PyObject *known = records ? Py_NewRef(records) : PyDict_New();                                                  /* new */
    PyObject *text = fill && known ? PyObject_CallFunctionObjArgs(fill, shape, known, NULL) : NULL; /* new */
    if (text != NULL)
        add_text(to, text);
    else
        to->failed = 1;
    Py_XDECREF(fill);
    Py_XDECREF(known);
    Py_XDECREF(text);
}

/* Add a value with the records of its tensors; `records` is NULL if there are none. */
static void add_filled(struct bytes *to, PyObject *shape, PyObject *records)
{
    if (shape == NULL || shape == Py_None)
        ADD(to, "null");
    else if (PyUnicode_Check(shape)) {
        PyObject *record = records ? PyDict_GetItemWithError(records, shape) : NULL; /* borrowed */
        if (record != NULL)
            add_text(to, record);
        else
            ADD(to, "null");
    } else if (PyTuple_CheckExact(shape)) {
        ADD(to, "[");
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++) {
            if (i)
                ADD(to, ",");
            add_filled(to, PyTuple_GET_ITEM(shape, i), records);
        }
        ADD(to, "]");
    } else
        add_filled_by_python(to, shape, records);
    if (PyErr_Occurred())
        to->failed = 1;
}

static PyObject *filled(PyObject *shape, PyObject *records)
{
    struct bytes text = {0};
    add_filled(&text, shape, records);
    return text_of(&text);
}

static PyObject *records_of(Backward *of)
{
    PyObject *records = PyDict_New(); /* new */
    PyObject *place, *part;           /* borrowed */
    Py_ssize_t at = 0;
    while (records && of->outgoing && PyDict_Next(of->outgoing, &at, &place, &part)) {
        PyObject *record = gradient_of(of, place, (Part *)part); /* new */
        if (record == NULL || PyDict_SetItem(records, place, record) < 0)
            Py_CLEAR(records);
        Py_XDECREF(record);
    }
    return records;
}

/* Write the gradients that arrived. */
static int write_out(Backward *of)
{
    PyObject *records = of->kept ? records_of(of) : NULL;                                                                /* new */
    PyObject *in = of->kept ? filled(of->results, of->incoming) : PyUnicode_New(0, 0);                                   /* new */
    PyObject *out = !of->kept ? PyUnicode_New(0, 0) : records ? filled(of->arguments, records) : NULL; /* new */
    PyObject *args[] = {of->session, (PyObject *)of, in, out};                                                           /* borrowed */
    PyObject *none = in && out ? PyObject_VectorcallMethod(words.end_backward, args, 4, NULL) : NULL;                    /* new */
    int failed = none == NULL;
    Py_XDECREF(records);
    Py_XDECREF(in);
    Py_XDECREF(out);
    Py_XDECREF(none);
    return failed ? -1 : 0;
}

/* Write the gradients that arrived and notify the enclosing call; does nothing if called again. */
static int finish(Backward *of)
{
    if (of->done)
        return 0;
    of->done = 1;
    if (of->begun && write_out(of) < 0)
        return -1;
    Py_CLEAR(of->incoming);
    Py_CLEAR(of->outgoing);
    Py_CLEAR(of->inner);
    return of->above ? arrived((Backward *)of->above) : 0;
}

int arrived(Backward *of)
{
    return --of->waiting == 0 && !of->done ? finish(of) : 0;
}

/* Finish the calls inside this call that have begun, then this call. */
int finish_all(Backward *of)
{
    int failed = Py_EnterRecursiveCall(" while a backward ends");
    if (failed)
        return -1;
    for (Py_ssize_t i = of->inner ? PyList_GET_SIZE(of->inner) : 0; !failed && i-- > 0;) {
        if (of->inner == NULL || i >= PyList_GET_SIZE(of->inner)) /* it ended in the meantime */
            break;
        Backward *inner = (Backward *)Py_NewRef(PyList_GET_ITEM(of->inner, i)); /* new */
        failed = inner->begun ? finish_all(inner) : 0;
        Py_DECREF(inner);
    }
    Py_LeaveRecursiveCall();
    return failed ? -1 : finish(of);
}

static PyObject *backward_describe(Backward *of, PyObject *args)
{
    PyObject *arguments, *results; /* borrowed */
    if (!PyArg_ParseTuple(args, "OO:describe", &arguments, &results))
        return NULL;
    Py_XSETREF(of->arguments, Py_NewRef(arguments));
    Py_XSETREF(of->results, Py_NewRef(results));
    Backward *above = (Backward *)of->above; /* borrowed */
    if (!of->waiting || above == NULL)
        Py_RETURN_NONE;
    above->waiting++;
    if (above->inner == NULL)
        above->inner = PyList_New(0);
    return none_or_error(above->inner ? PyList_Append(above->inner, (PyObject *)of) : -1);
}

static PyObject *backward_expect(Backward *of, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"places", "to_leaf", NULL};
    PyObject *places; /* borrowed */
    int to_leaf = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:expect", words, &places, &to_leaf))
        return NULL;
    return none_or_error(expect(of, places, to_leaf));
}

static PyObject *arrival(Backward *of, PyObject *args, PyObject *kwargs, Arrival *take)
{
    static char *words[] = {"place", "gradient", "index", "memo", "shared", NULL};
    PyObject *place, *gradient, *memo; /* borrowed */
    Py_ssize_t index;
    int shared;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOnO!p", words, &place, &gradient, &index, &PyDict_Type, &memo, &shared))
        return NULL;
    return none_or_error(take(of, place, gradient, index, memo, shared));
}

static PyObject *backward_incoming(Backward *of, PyObject *args, PyObject *kwargs) { return arrival(of, args, kwargs, incoming); }

static PyObject *backward_contribute(Backward *of, PyObject *args, PyObject *kwargs) { return arrival(of, args, kwargs, contribute); }

static PyObject *backward_arrived(Backward *of, PyObject *Py_UNUSED(none)) { return none_or_error(arrived(of)); }

static PyObject *backward_finish(Backward *of, PyObject *Py_UNUSED(none)) { return none_or_error(finish(of)); }

static PyObject *backward_finish_all(Backward *of, PyObject *Py_UNUSED(none)) { return none_or_error(finish_all(of)); }

static PyObject *backward_entry(Backward *of, PyObject *args)
{
    PyObject *in, *out; /* borrowed */
    if (!PyArg_ParseTuple(args, "UU:entry", &in, &out))
        return NULL;
    if (!of->kept)
        Py_RETURN_NONE;
    int has_input = flag(of->session, words.collects_input), has_output = has_input < 0 ? -1 : flag(of->session, words.collects_output);
    if (has_output < 0)
        return NULL;
    struct bytes text = {0};
    ADD(&text, "{");
    if (has_input) {
        ADD(&text, "\"input\":");
        add_text(&text, in);
    }
    if (has_output) {
        if (has_input)
            ADD(&text, ",");
        ADD(&text, "\"output\":");
        add_text(&text, out);
    }
    add_text(&text, of->at);
    ADD(&text, "}");
    return text_of(&text);
}

static PyObject *backward_live(Backward *of, void *Py_UNUSED(closure)) { return PyBool_FromLong(of->waiting > 0); }

static PyObject *backward_parent(Backward *of, void *Py_UNUSED(closure))
{
    return Py_NewRef(of->above ? ((Backward *)of->above)->name : Py_None);
}

static PyMethodDef BACKWARD_METHODS[] = {
    {"describe", TAKES(backward_describe, METH_VARARGS), NULL},
    {"expect", TAKES(backward_expect, METH_VARARGS | METH_KEYWORDS), NULL},
    {"incoming", TAKES(backward_incoming, METH_VARARGS | METH_KEYWORDS), NULL},
    {"contribute", TAKES(backward_contribute, METH_VARARGS | METH_KEYWORDS), NULL},
    {"arrived", TAKES(backward_arrived, METH_NOARGS), NULL},
    {"finish", TAKES(backward_finish, METH_NOARGS), NULL},
    {"finish_all", TAKES(backward_finish_all, METH_NOARGS), NULL},
    {"entry", TAKES(backward_entry, METH_VARARGS), NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef BACKWARD_MEMBERS[] = {
    {"name", T_OBJECT, offsetof(Backward, name), READONLY, NULL}, {"at", T_OBJECT, offsetof(Backward, at), READONLY, NULL},
    {"begun", T_BOOL, offsetof(Backward, begun), 0, NULL},        {"done", T_BOOL, offsetof(Backward, done), 0, NULL},
    {"kept", T_BOOL, offsetof(Backward, kept), 0, NULL},          {"lowest", T_LONGLONG, offsetof(Backward, lowest), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef BACKWARD_GETTERS[] = {
    {"live", (getter)backward_live, NULL, NULL, NULL},
    {"parent", (getter)backward_parent, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject BACKWARD = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "msprobe.cell_dump._gradients.Backward",
    .tp_doc = "The class `Backward` of backward.py in C.",
    .tp_basicsize = sizeof(Backward),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = backward_new,
    .tp_dealloc = (destructor)backward_free,
    .tp_traverse = (traverseproc)backward_traverse,
    .tp_clear = (inquiry)backward_clear,
    .tp_methods = BACKWARD_METHODS,
    .tp_members = BACKWARD_MEMBERS,
    .tp_getset = BACKWARD_GETTERS,
};
