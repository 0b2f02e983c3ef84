/* A call's backward while its gradients arrive: what the class `Backward` of backward.py does, and is read there. */

#include "_gradients.h"

/* Bytes that grow, for JSON in UTF-8. */
struct bytes {
    char *at;
    Py_ssize_t length, room;
    int failed;
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
        to->at = at, to->room = room;
    }
    memcpy(to->at + to->length, text, (size_t)length);
    to->length += length;
}

static void add_text(struct bytes *to, PyObject *text)
{
    Py_ssize_t length;
    const char *letters = PyUnicode_AsUTF8AndSize(text, &length);
    if (letters == NULL)
        to->failed = 1;
    else
        add(to, letters, length);
}

#define ADD(to, literal) add(to, literal, (Py_ssize_t)sizeof(literal) - 1)

/* What was added, as a text; the bytes are freed. */
static PyObject *text_of(struct bytes *from)
{
    PyObject *made = from->failed ? NULL : PyUnicode_DecodeUTF8(from->at, from->length, NULL);
    PyMem_Free(from->at);
    return made;
}

int flag(PyObject *of, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(of, name);
    int is_true = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return is_true;
}

/* A function of backward.py, for what is rare. */
PyObject *of_python(const char *name)
{
    PyObject *module = PyImport_ImportModule("msprobe.cell_dump.backward");
    PyObject *function = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return function;
}

/* What is expected and has come for one argument; it holds nothing that could hold it. */
typedef struct {
    PyObject_HEAD
    Py_ssize_t expected, parts;
    int to_leaf, shared;
    PyObject *dtype, *record, *total;
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
    PyObject_GC_UnTrack(of);
    backward_clear(of);
    PyObject **held[] = {&of->name, &of->at, &of->incoming, &of->expected, &of->outgoing, &of->arguments, &of->results};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        Py_CLEAR(*held[i]);
    PyObject_GC_Del(of);
}

static PyObject *backward_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"name", "above", "session", "describer", "at", NULL};
    PyObject *name, *above, *session, *describer, *at = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UOOO|U", words, &name, &above, &session, &describer, &at))
        return NULL;
    if (above != Py_None && !IS_OURS(above))
        return PyErr_Format(PyExc_TypeError, "`above` is a Backward, or None");
    Backward *made = (Backward *)type->tp_alloc(type, 0);
    if (made == NULL)
        return NULL;
    made->name = Py_NewRef(name), made->session = Py_NewRef(session), made->describer = Py_NewRef(describer);
    made->at = at ? Py_NewRef(at) : PyUnicode_New(0, 0);
    made->above = above == Py_None ? NULL : Py_NewRef(above);
    made->lowest = -1;
    return (PyObject *)made;
}

/* The part of an argument, borrowed; made where there is none in `*in`, which is made too. */
static Part *part_in(PyObject **in, PyObject *place, Part *known)
{
    if (*in == NULL && (*in = PyDict_New()) == NULL)
        return NULL;
    PyObject *found = PyDict_GetItemWithError(*in, place);
    if (found != NULL || PyErr_Occurred())
        return (Part *)found;
    Part *made = known;
    if (known != NULL)
        Py_INCREF(known);
    else if ((made = PyObject_New(Part, &PART)) != NULL) {
        made->expected = made->parts = 0, made->to_leaf = made->shared = 0;
        made->dtype = made->record = made->total = NULL;
    }
    int is_kept = made && PyDict_SetItem(*in, place, (PyObject *)made) == 0;
    Py_XDECREF(made);
    return is_kept ? made : NULL;
}

int expect(Backward *of, PyObject *places, int to_leaf)
{
    of->waiting++;
    PyObject *all = places ? PySequence_Fast(places, "places are a sequence") : NULL;
    if (all == NULL)
        return places ? -1 : 0;
    int failed = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all) && !failed; i++) {
        Part *part = part_in(&of->expected, PySequence_Fast_GET_ITEM(all, i), NULL);
        if (part == NULL)
            failed = -1;
        else
            part->expected++, part->to_leaf |= to_leaf;
    }
    Py_DECREF(all);
    return failed;
}

static int come_late(Backward *of, const char *side, PyObject *place)
{
    static const char CAUSE[] = "a gradient arrived after the backward pass of the call had ended, as with a second backward pass";
    PyObject *part = PyUnicode_FromFormat("%s.%U", side, place);
    PyObject *none = part ? PyObject_CallMethod(of->describer, "lost", "OOs", of->name, part, CAUSE) : NULL;
    Py_XDECREF(part);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

/* A record marked as the sum over every user of the tensor; null stays null. Takes the reference. */
static PyObject *accumulated(PyObject *record)
{
    if (record == NULL || PyUnicode_CompareWithASCIIString(record, "null") == 0)
        return record;
    struct bytes text = {0};
    add_text(&text, record);
    text.length -= !text.failed;
    ADD(&text, ",\"gradient\":\"accumulated\"}");
    Py_DECREF(record);
    return text_of(&text);
}

static PyObject *described(Backward *of, PyObject *gradient, const char *side, PyObject *place)
{
    int is_quick = kernel_record ? flag(of->describer, words.is_quick) : 0;
    if (is_quick < 0)
        return NULL;
    if (is_quick) {
        PyObject *reader = PyObject_GetAttr(of->describer, words.reader), *both[] = {gradient, reader};
        PyObject *made = reader ? PyObject_Vectorcall(kernel_record, both, 2, NULL) : NULL;
        Py_XDECREF(reader);
        if (made != Py_None)
            return made;
        Py_DECREF(made);
    }
    PyObject *part = PyUnicode_FromFormat("%s.%U", side, place), *args[] = {of->describer, gradient, of->name, part};
    PyObject *made = part ? PyObject_VectorcallMethod(words.tensor, args, 4, NULL) : NULL;
    Py_XDECREF(part);
    return made;
}

/* The record of a gradient; of one node's the same for every call, by its index in `memo`, a dict or NULL. */
static PyObject *record_of(Backward *of, PyObject *gradient, const char *side, PyObject *place, Py_ssize_t index, PyObject *memo)
{
    int saves = memo ? flag(of->describer, words.saves) : 1; /* then its record names a file of its own */
    if (saves)
        return saves < 0 ? NULL : described(of, gradient, side, place);
    PyObject *key = PyLong_FromSsize_t(index), *made = key ? PyDict_GetItemWithError(memo, key) : NULL;
    if (made != NULL)
        Py_INCREF(made);
    else if (!PyErr_Occurred() && (made = described(of, gradient, side, place)) && PyDict_SetItem(memo, key, made) < 0)
        Py_CLEAR(made);
    Py_XDECREF(key);
    return made;
}

int incoming(Backward *of, PyObject *place, PyObject *gradient, Py_ssize_t index, PyObject *memo, int shared)
{
    if (of->done)
        return come_late(of, "input", place);
    if (!of->begun) {
        of->begun = 1;
        int is_kept = flag(of->session, words.keeps_backwards);
        if (is_kept == 0) {
            PyObject *kept = PyObject_CallMethodOneArg(of->session, words.begin_backward, (PyObject *)of);
            is_kept = kept ? PyObject_IsTrue(kept) : -1;
            Py_XDECREF(kept);
        }
        if (is_kept < 0)
            return -1;
        of->kept = (char)is_kept;
    }
    int collects = of->kept && gradient != Py_None ? flag(of->session, words.collects_input) : 0;
    if (collects <= 0)
        return collects;
    PyObject *record = record_of(of, gradient, "input", place, index, memo);
    if (shared)
        record = accumulated(record);
    if (record && of->incoming == NULL)
        of->incoming = PyDict_New();
    int failed = record && of->incoming ? PyDict_SetItem(of->incoming, place, record) : -1;
    Py_XDECREF(record);
    return failed;
}

/* Add an array to the sum of a part. */
static int sum_up(Backward *of, Part *part, PyObject *gradient)
{
    PyObject *dtype = PyObject_CallMethod(of->describer, "dtype", "O", gradient);
    if (dtype == NULL)
        return -1;
    Py_XSETREF(part->dtype, dtype);
    PyObject *array = PyObject_CallMethod(of->describer, "elements", "O", gradient);
    PyObject *summed = array ? of_python("summed") : NULL;
    PyObject *total = summed ? PyObject_CallFunctionObjArgs(summed, part->total ? part->total : Py_None, array, NULL) : NULL;
    Py_XDECREF(array);
    Py_XDECREF(summed);
    if (total == NULL)
        return -1;
    Py_XSETREF(part->total, total);
    return 0;
}

int contribute(Backward *of, PyObject *place, PyObject *gradient, Py_ssize_t index, PyObject *memo, int shared)
{
    if (of->done)
        return come_late(of, "output", place);
    Part *known = of->expected ? (Part *)PyDict_GetItemWithError(of->expected, place) : NULL;
    Part *part = PyErr_Occurred() ? NULL : part_in(&of->outgoing, place, known);
    if (part == NULL)
        return -1;
    part->shared |= shared;
    if (gradient == Py_None)
        return 0;
    part->parts++;
    int collects = of->kept ? flag(of->session, words.collects_output) : 0;
    if (collects <= 0)
        return collects;
    Py_INCREF(part);
    int failed = 0;
    if (part->expected > 1)
        failed = sum_up(of, part, gradient);
    else {
        PyObject *record = record_of(of, gradient, "output", place, index, memo);
        failed = record ? 0 : -1;
        if (record)
            Py_XSETREF(part->record, record);
    }
    Py_DECREF(part);
    return failed;
}

/* The record of what came for an argument. */
static PyObject *gradient_of(Backward *of, PyObject *place, Part *part)
{
    PyObject *record;
    if (part->to_leaf && part->parts < part->expected)
        return PyUnicode_FromString("null"); /* nobody wants it: what came is what some node computed besides */
    if (part->total != NULL) {
        PyObject *kind = PyObject_GetAttrString(of->describer, "kind"), *at = kind ? PyUnicode_FromFormat("output.%U", place) : NULL;
        record = at ? PyObject_CallMethod(of->describer, "array", "OOOOO", part->total, of->name, at, kind, part->dtype) : NULL;
        Py_XDECREF(kind);
        Py_XDECREF(at);
    } else
        record = part->record ? Py_NewRef(part->record) : PyUnicode_FromString("null");
    return part->shared ? accumulated(record) : record;
}

static void add_filled(struct bytes *to, PyObject *shape, PyObject *records)
{
    if (shape == NULL || shape == Py_None)
        ADD(to, "null");
    else if (PyUnicode_Check(shape)) {
        PyObject *record = records ? PyDict_GetItemWithError(records, shape) : NULL;
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
    } else { /* a container inside of a value */
        PyObject *fill = of_python("fill"), *known = records ? Py_NewRef(records) : PyDict_New();
        PyObject *text = fill && known ? PyObject_CallFunctionObjArgs(fill, shape, known, NULL) : NULL;
        if (text != NULL)
            add_text(to, text);
        else
            to->failed = 1;
        Py_XDECREF(fill);
        Py_XDECREF(known);
        Py_XDECREF(text);
    }
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
    PyObject *records = PyDict_New(), *place, *part;
    Py_ssize_t at = 0;
    while (records && of->outgoing && PyDict_Next(of->outgoing, &at, &place, &part)) {
        PyObject *record = gradient_of(of, place, (Part *)part);
        if (record == NULL || PyDict_SetItem(records, place, record) < 0)
            Py_CLEAR(records);
        Py_XDECREF(record);
    }
    return records;
}

/* Write what has come and notify the enclosing call; a second time does nothing. */
static int finish(Backward *of)
{
    if (of->done)
        return 0;
    of->done = 1;
    if (of->begun) {
        PyObject *records = of->kept ? records_of(of) : NULL, *none = NULL;
        PyObject *in = of->kept ? filled(of->results, of->incoming) : PyUnicode_New(0, 0);
        PyObject *out = !of->kept ? PyUnicode_New(0, 0) : records ? filled(of->arguments, records) : NULL;
        PyObject *args[] = {of->session, (PyObject *)of, in, out};
        if (in && out)
            none = PyObject_VectorcallMethod(words.end_backward, args, 4, NULL);
        Py_XDECREF(records);
        Py_XDECREF(in);
        Py_XDECREF(out);
        Py_XDECREF(none);
        if (none == NULL)
            return -1;
    }
    Py_CLEAR(of->incoming);
    Py_CLEAR(of->outgoing);
    Py_CLEAR(of->inner);
    return of->above ? arrived((Backward *)of->above) : 0;
}

int arrived(Backward *of)
{
    return --of->waiting == 0 && !of->done ? finish(of) : 0;
}

/* Finish what has begun inside this call, then the call. */
int finish_all(Backward *of)
{
    int failed = Py_EnterRecursiveCall(" while a backward ends");
    if (failed)
        return -1;
    for (Py_ssize_t i = of->inner ? PyList_GET_SIZE(of->inner) : 0; !failed && i-- > 0;) {
        if (of->inner == NULL || i >= PyList_GET_SIZE(of->inner)) /* it has ended meanwhile */
            break;
        Backward *inner = (Backward *)Py_NewRef(PyList_GET_ITEM(of->inner, i));
        failed = inner->begun ? finish_all(inner) : 0;
        Py_DECREF(inner);
    }
    Py_LeaveRecursiveCall();
    return failed ? -1 : finish(of);
}

PyObject *none_or_error(int failed)
{
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *backward_describe(Backward *of, PyObject *args)
{
    PyObject *arguments, *results;
    if (!PyArg_ParseTuple(args, "OO:describe", &arguments, &results))
        return NULL;
    Py_XSETREF(of->arguments, Py_NewRef(arguments));
    Py_XSETREF(of->results, Py_NewRef(results));
    Backward *above = (Backward *)of->above;
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
    PyObject *places;
    int to_leaf = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p:expect", words, &places, &to_leaf))
        return NULL;
    return none_or_error(expect(of, places, to_leaf));
}

static PyObject *arrival(Backward *of, PyObject *args, PyObject *kwargs, Arrival *take)
{
    static char *words[] = {"place", "gradient", "index", "memo", "shared", NULL};
    PyObject *place, *gradient, *memo;
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
    PyObject *in, *out;
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
    .tp_doc = "As `Backward` of backward.py.",
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
