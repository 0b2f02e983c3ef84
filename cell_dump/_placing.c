/* Hooks placed on the nodes of a finished call, and who produced its arguments: what `inputs`, `place` and `_walk` of
 * gradient.py do.
 */

#include "_gradients.h"

/* A result of a call that has a node; all owned. */
struct result {
    PyObject *place, *identity, *key, *node;
    Py_ssize_t index;
};

/* Where the gradient of an argument leaves a call; all owned. */
struct edge {
    PyObject *identity, *node, *places;
    Py_ssize_t slot;
    int shared, to_leaf;
};

struct edges {
    struct edge *all;
    Py_ssize_t count;
};

static int index_of(Nodes *nodes, PyObject *tensor, Py_ssize_t *index)
{
    PyObject *value = PyObject_CallOneArg(nodes->index_of, tensor);
    *index = value ? PyLong_AsSsize_t(value) : -1;
    Py_XDECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

/* (identity, index); takes no reference. */
static PyObject *key_of(PyObject *identity, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index), *key = number ? PyTuple_Pack(2, identity, number) : NULL;
    Py_XDECREF(number);
    return key;
}

static int put_source(PyObject *sources, PyObject *tensor, PyObject *source)
{
    PyObject *id = PyLong_FromVoidPtr(tensor);
    int failed = id ? PyDict_SetItem(sources, id, source) : -1;
    Py_XDECREF(id);
    return failed;
}

/* Add one more place to those of a key. */
static int put_wanted(PyObject *wanted, PyObject *key, PyObject *place)
{
    PyObject *known = PyDict_GetItemWithError(wanted, key), *one = PyErr_Occurred() ? NULL : PyTuple_Pack(1, place);
    PyObject *places = one && known ? PySequence_Concat(known, one) : one ? Py_NewRef(one) : NULL;
    int failed = places ? PyDict_SetItem(wanted, key, places) : -1;
    Py_XDECREF(one);
    Py_XDECREF(places);
    return failed;
}

/* What is known of the node of one argument: adds to `wanted` and `sources`, raises the floor. */
static int take_node(Nodes *nodes, PyObject *place, PyObject *tensor, PyObject *node, PyObject *wanted, PyObject *sources, long long *floor)
{
    Py_ssize_t index = 0;
    PyObject *identity = PyObject_CallOneArg(nodes->identity, node), *source = code_source;
    PyObject *key = identity && index_of(nodes, tensor, &index) == 0 ? key_of(identity, index) : NULL;
    int failed = key ? put_wanted(wanted, key, place) : -1;
    PyObject *known = failed ? NULL : PyDict_GetItemWithError(nodes->watches, identity);
    Watch *watch = (Watch *)known;
    long long sequence = -1;
    int is_leaf = 0;
    if (failed || PyErr_Occurred())
        failed = -1;
    else if (watch != NULL) {
        is_leaf = watch->is_leaf, sequence = watch->sequence;
        for (Py_ssize_t i = 0; i < watch->producers; i++)
            if (watch->producer[i].index == index)
                source = watch->producer[i].text;
    } else if ((is_leaf = is_true_of(nodes->is_leaf, node)) > 0)
        source = leaf_source;
    else
        failed = is_leaf < 0 || sequence_of(node, &sequence) < 0 ? -1 : 0;
    if (!failed)
        failed = put_source(sources, tensor, source);
    if (!failed && !is_leaf && sequence > *floor)
        *floor = sequence;
    Py_XDECREF(identity);
    Py_XDECREF(key);
    return failed;
}

static int take_name(Nodes *nodes, PyObject *tensor, PyObject *sources)
{
    PyObject *name = PyObject_CallOneArg(nodes->name_of, tensor);
    int failed = name ? 0 : -1;
    if (name != NULL && PyObject_IsTrue(name) > 0) {
        PyObject *text = PyUnicode_FromFormat("parameter %S", name), *source = text ? PyObject_CallOneArg(quote, text) : NULL;
        failed = source ? put_source(sources, tensor, source) : -1;
        Py_XDECREF(text);
        Py_XDECREF(source);
    }
    Py_XDECREF(name);
    return failed;
}

static int is_leaf_tuple(PyObject *leaf)
{
    if (PyTuple_Check(leaf) && PyTuple_GET_SIZE(leaf) == 2)
        return 1;
    PyErr_SetString(PyExc_TypeError, "a leaf is a place and a tensor");
    return 0;
}

PyObject *nodes_inputs(Nodes *of, PyObject *tensors)
{
    PyObject *all = PySequence_Fast(tensors, "leaves are a sequence"), *wanted = PyDict_New(), *sources = PyDict_New();
    long long floor = -1;
    int failed = !all || !wanted || !sources;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(all); i++) {
        PyObject *leaf = PySequence_Fast_GET_ITEM(all, i);
        if ((failed = !is_leaf_tuple(leaf)))
            break;
        PyObject *tensor = PyTuple_GET_ITEM(leaf, 1), *node = PyObject_CallOneArg(of->node_of, tensor);
        if (node == NULL) {
            failed = !PyErr_ExceptionMatches(PyExc_AttributeError); /* a tensor of another framework */
            if (!failed)
                PyErr_Clear();
            continue;
        }
        if (node != Py_None)
            failed = take_node(of, PyTuple_GET_ITEM(leaf, 0), tensor, node, wanted, sources, &floor);
        Py_DECREF(node);
        if (!failed && (PyObject *)Py_TYPE(tensor) != of->tensor)
            failed = take_name(of, tensor, sources);
    }
    Py_XDECREF(all);
    if (!failed)
        return Py_BuildValue("(NLN)", wanted, floor, sources);
    Py_XDECREF(wanted);
    Py_XDECREF(sources);
    return NULL;
}

/* The leaves that are the framework's own. */
static PyObject *ours(Nodes *of, PyObject *tensors)
{
    PyObject *all = PySequence_Fast(tensors, "leaves are a sequence"), *made = all ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; made && i < PySequence_Fast_GET_SIZE(all); i++) {
        PyObject *leaf = PySequence_Fast_GET_ITEM(all, i);
        int is_ours = is_leaf_tuple(leaf) ? PyObject_IsInstance(PyTuple_GET_ITEM(leaf, 1), of->tensor) : -1;
        if (is_ours < 0 || (is_ours && PyList_Append(made, leaf) < 0))
            Py_CLEAR(made);
    }
    Py_XDECREF(all);
    return made;
}

PyObject *nodes_probe(Nodes *of, PyObject *tensors)
{
    PyObject *found = PyObject_CallOneArg(of->probe, tensors);
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) /* of a tensor of another framework */
        return found;
    PyErr_Clear();
    PyObject *known = ours(of, tensors);
    found = known ? PyObject_CallOneArg(of->probe, known) : NULL;
    Py_XDECREF(known);
    return found;
}

static void free_results(struct result *all, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(all[i].place);
        Py_XDECREF(all[i].identity);
        Py_XDECREF(all[i].key);
        Py_XDECREF(all[i].node);
    }
    PyMem_Free(all);
}

/* The results among leaves that have a node; NULL with an error, that of a tensor of another framework too. */
static struct result *results_among(Nodes *of, PyObject *leaves, Py_ssize_t *count)
{
    *count = 0;
    PyObject *all = PySequence_Fast(leaves, "leaves are a sequence");
    struct result *made = all ? PyMem_Calloc((size_t)PySequence_Fast_GET_SIZE(all) + 1, sizeof *made) : NULL;
    for (Py_ssize_t i = 0; made && i < PySequence_Fast_GET_SIZE(all); i++) {
        PyObject *leaf = PySequence_Fast_GET_ITEM(all, i);
        PyObject *node = is_leaf_tuple(leaf) ? PyObject_CallOneArg(of->node_of, PyTuple_GET_ITEM(leaf, 1)) : NULL;
        if (node == Py_None) {
            Py_DECREF(node);
            continue;
        }
        struct result *to = &made[*count];
        *count += 1;
        to->node = node, to->place = Py_NewRef(node ? PyTuple_GET_ITEM(leaf, 0) : Py_None);
        to->identity = node ? PyObject_CallOneArg(of->identity, node) : NULL;
        if (to->identity && index_of(of, PyTuple_GET_ITEM(leaf, 1), &to->index) == 0)
            to->key = key_of(to->identity, to->index);
        if (to->key == NULL) {
            free_results(made, *count);
            made = NULL;
        }
    }
    Py_XDECREF(all);
    if (made == NULL && !PyErr_Occurred())
        PyErr_NoMemory();
    return made;
}

static struct result *results_of(Nodes *of, PyObject *leaves, Py_ssize_t *count)
{
    struct result *made = results_among(of, leaves, count);
    if (made != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return made;
    PyErr_Clear();
    PyObject *known = ours(of, leaves);
    made = known ? results_among(of, known, count) : NULL;
    Py_XDECREF(known);
    return made;
}

static int put_edge(struct edges *to, PyObject *identity, PyObject *node, Py_ssize_t slot, PyObject *places, int shared, int to_leaf)
{
    struct edge *all = grown(to->all, to->count, sizeof *all);
    if (all == NULL)
        return -1;
    to->all = all;
    to->all[to->count++] = (struct edge){Py_NewRef(identity), Py_NewRef(node), Py_NewRef(places), slot, shared, to_leaf};
    return 0;
}

static void free_edges(struct edges *of)
{
    while (of->count) {
        struct edge last = of->all[--of->count];
        Py_DECREF(last.identity);
        Py_DECREF(last.node);
        Py_DECREF(last.places);
    }
    PyMem_Free(of->all);
}

/* What a walk has found. */
struct walk {
    struct edges edges, todo; /* of `todo` the identity and the node only */
    PyObject *inside, *seen, *several; /* sets and a dict; `several` NULL as long as it is not needed */
    long long lowest;
};

/* One of several consumers of an argument that stands at several places. */
static int put_several(struct walk *walk, PyObject *end, PyObject *identity, PyObject *node, Py_ssize_t slot, int to_leaf)
{
    if (walk->several == NULL && (walk->several = PyDict_New()) == NULL)
        return -1;
    PyObject *made = PyList_New(0), *list = made ? PyDict_SetDefault(walk->several, end, made) : NULL;
    PyObject *consumer = list ? Py_BuildValue("(OOni)", identity, node, slot, to_leaf) : NULL;
    int failed = consumer ? PyList_Append(list, consumer) : -1;
    Py_XDECREF(made);
    Py_XDECREF(consumer);
    return failed;
}

static int follow(Nodes *of, struct walk *walk, PyObject *identity, PyObject *node, Py_ssize_t slot, PyObject *edge, PyObject *wanted)
{
    PyObject *below, *index;
    if (!PyArg_ParseTuple(edge, "OO;an edge of the graph", &below, &index) || below == Py_None)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *end = PyObject_CallOneArg(of->identity, below), *key = end ? PyTuple_Pack(2, end, index) : NULL;
    PyObject *places = key ? PyDict_GetItemWithError(wanted, key) : NULL;
    int failed = PyErr_Occurred() != NULL, to_leaf = !failed && places ? is_true_of(of->is_leaf, below) : 0;
    if (failed || to_leaf < 0)
        failed = 1;
    else if (places == NULL)
        failed = PySet_Add(walk->inside, key) < 0 || put_edge(&walk->todo, end, below, 0, Py_None, 0, 0) < 0;
    else if (PyTuple_GET_SIZE(places) == 1)
        failed = put_edge(&walk->edges, identity, node, slot, places, 0, to_leaf) < 0;
    else
        failed = put_several(walk, key, identity, node, slot, to_leaf) < 0;
    Py_XDECREF(end);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

static int visit_node(Nodes *of, struct walk *walk, PyObject *identity, PyObject *node, PyObject *wanted, long long floor)
{
    long long sequence;
    int is_seen = PySet_Contains(walk->seen, identity);
    if (is_seen || sequence_of(node, &sequence) < 0 || sequence <= floor)
        return is_seen < 0 || PyErr_Occurred() ? -1 : 0;
    if (PySet_Add(walk->seen, identity) < 0)
        return -1;
    if (sequence < walk->lowest)
        walk->lowest = sequence;
    PyObject *below = PyObject_GetAttr(node, words.next_functions);
    PyObject *all = below ? PySequence_Fast(below, "the edges are a sequence") : NULL;
    int failed = all ? 0 : -1;
    for (Py_ssize_t slot = 0; !failed && slot < PySequence_Fast_GET_SIZE(all); slot++)
        failed = follow(of, walk, identity, node, slot, PySequence_Fast_GET_ITEM(all, slot), wanted);
    Py_XDECREF(below);
    Py_XDECREF(all);
    return failed;
}

/* The edges of arguments at several places: one each where one node uses them all, else marked as shared. */
static int sort_several(struct walk *walk, PyObject *wanted)
{
    PyObject *end, *consumers;
    Py_ssize_t at = 0;
    int failed = 0;
    while (!failed && walk->several && PyDict_Next(walk->several, &at, &end, &consumers)) {
        PyObject *places = PyDict_GetItemWithError(wanted, end);
        Py_ssize_t count = PyList_GET_SIZE(consumers);
        int is_one = places && PyTuple_GET_SIZE(places) == count;
        for (Py_ssize_t i = 1; is_one && i < count; i++)
            is_one = PyObject_RichCompareBool(PyTuple_GET_ITEM(PyList_GET_ITEM(consumers, 0), 0),
                                              PyTuple_GET_ITEM(PyList_GET_ITEM(consumers, i), 0), Py_EQ);
        failed = !places || is_one < 0;
        for (Py_ssize_t i = 0; !failed && i < count; i++) {
            PyObject *identity, *node, *own;
            Py_ssize_t slot;
            int to_leaf;
            failed = !PyArg_ParseTuple(PyList_GET_ITEM(consumers, i), "OOni", &identity, &node, &slot, &to_leaf)
                || (own = is_one ? PyTuple_GetSlice(places, i, i + 1) : Py_NewRef(places)) == NULL;
            if (!failed) {
                failed = put_edge(&walk->edges, identity, node, slot, own, !is_one, to_leaf) < 0;
                Py_DECREF(own);
            }
        }
    }
    return failed ? -1 : 0;
}

static int walk_from(Nodes *of, struct walk *walk, struct result *results, Py_ssize_t count, PyObject *wanted, long long floor)
{
    walk->lowest = NO_NODE;
    walk->inside = PySet_New(NULL), walk->seen = PySet_New(NULL);
    int failed = !walk->inside || !walk->seen;
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        int is_argument = PyDict_Contains(wanted, results[i].key);
        failed = is_argument < 0 || (!is_argument && put_edge(&walk->todo, results[i].identity, results[i].node, 0, Py_None, 0, 0) < 0);
    }
    while (!failed && walk->todo.count) {
        struct edge last = walk->todo.all[--walk->todo.count];
        failed = visit_node(of, walk, last.identity, last.node, wanted, floor) < 0;
        Py_DECREF(last.identity);
        Py_DECREF(last.node);
        Py_DECREF(last.places);
    }
    return failed ? -1 : sort_several(walk, wanted);
}

static void free_walk(struct walk *walk)
{
    free_edges(&walk->edges);
    free_edges(&walk->todo);
    Py_XDECREF(walk->inside);
    Py_XDECREF(walk->seen);
    Py_XDECREF(walk->several);
}

/* The watch of a node, borrowed from the dict that holds it. */
static Watch *watch_of(Nodes *of, PyObject *identity, PyObject *node)
{
    PyObject *known = PyDict_GetItemWithError(of->watches, identity);
    if (known != NULL || PyErr_Occurred())
        return (Watch *)known;
    int is_leaf = is_true_of(of->is_leaf, node);
    long long sequence;
    if (is_leaf < 0 || sequence_of(node, &sequence) < 0)
        return NULL;
    Watch *made = (Watch *)WATCH.tp_alloc(&WATCH, 0);
    if (made == NULL)
        return NULL;
    made->owner = (Nodes *)Py_NewRef(of), made->key = Py_NewRef(identity), made->node = Py_NewRef(node);
    made->sequence = sequence, made->is_leaf = is_leaf;
    int is_kept = PyDict_SetItem(of->watches, identity, (PyObject *)made) == 0;
    Py_DECREF(made);
    return is_kept ? made : NULL;
}

/* Register a hook of ours on a node, by one of its methods. */
static int register_on(Nodes *of, PyObject *node, PyObject *method, PyMethodDef *work, Watch *watch)
{
    PyObject *function = PyCFunction_New(work, (PyObject *)watch);
    PyObject *hook = function ? PyObject_CallOneArg(of->make_hook, function) : NULL;
    PyObject *handle = hook ? PyObject_CallMethodOneArg(node, method, hook) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(hook);
    return called(handle);
}

static int listen(Nodes *of, Watch *watch, PyObject *node)
{
    if (watch->is_hooked)
        return 0;
    watch->is_hooked = 1;
    return register_on(of, node, words.prehook, &INCOMING, watch);
}

static int produce(Watch *watch, Py_ssize_t index, PyObject *call, PyObject *place)
{
    for (Py_ssize_t i = 0; i < watch->producers; i++)
        if (watch->producer[i].index == index)
            return 0; /* the first that produced it */
    PyObject *text = PyUnicode_FromFormat("call %U.output.%U", call, place), *quoted = text ? PyObject_CallOneArg(quote, text) : NULL;
    Py_XDECREF(text);
    struct producer *all = quoted ? grown(watch->producer, watch->producers, sizeof *all) : NULL;
    if (all == NULL) {
        Py_XDECREF(quoted);
        return -1;
    }
    watch->producer = all;
    watch->producer[watch->producers++] = (struct producer){index, quoted};
    return 0;
}

static int set_lowest(PyObject *backward, long long lowest)
{
    if (IS_OURS(backward)) {
        ((Backward *)backward)->lowest = lowest;
        return 0;
    }
    PyObject *number = PyLong_FromLongLong(lowest);
    int failed = number ? PyObject_SetAttr(backward, words.lowest, number) : -1;
    Py_XDECREF(number);
    return failed;
}

/* Whether a result is one of several that are the same tensor. */
static int is_repeated(const struct result *results, Py_ssize_t count, const struct result *one)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (&results[i] != one && results[i].index == one->index) {
            int is_same = PyObject_RichCompareBool(results[i].identity, one->identity, Py_EQ);
            if (is_same)
                return is_same;
        }
    return 0;
}

/* What a call's placing carries. */
struct placing {
    PyObject *backward, *call, *wanted, *passed;
    long long lowest;
};

static int place_result(Nodes *of, struct placing *to, const struct walk *walk, const struct result *results, Py_ssize_t count, const struct result *one)
{
    Watch *watch = watch_of(of, one->identity, one->node);
    PyObject *passing = watch ? PyDict_GetItemWithError(to->wanted, one->key) : NULL;
    if (watch == NULL || PyErr_Occurred())
        return -1;
    int was_passed = passing ? PySet_Contains(to->passed, one->key) : 0;
    if (passing != NULL && !was_passed) {
        if (PySet_Add(to->passed, one->key) < 0)
            return -1;
        to->lowest = watch->is_leaf ? -1 : watch->sequence < to->lowest ? watch->sequence : to->lowest;
    } else {
        passing = NULL;
        if (was_passed < 0 || produce(watch, one->index, to->call, one->place) < 0)
            return -1;
    }
    if (listen(of, watch, one->node) < 0)
        return -1;
    int shared = passing ? 1 : PySet_Contains(walk->inside, one->key);
    if (!shared && count > 1)
        shared = is_repeated(results, count, one);
    struct before *all = shared < 0 ? NULL : grown(watch->before, watch->befores, sizeof *all);
    if (all == NULL)
        return -1;
    watch->before = all;
    Py_XINCREF(passing);
    watch->before[watch->befores++] = (struct before){Py_NewRef(to->backward), Py_NewRef(one->place), passing, one->index, shared};
    return expects(to->backward, passing, 0);
}

static int place_edge(Nodes *of, PyObject *backward, const struct edge *edge)
{
    Watch *watch = watch_of(of, edge->identity, edge->node);
    if (watch == NULL || (!watch->afters && register_on(of, edge->node, words.hook, &CONTRIBUTED, watch) < 0))
        return -1;
    struct after *all = grown(watch->after, watch->afters, sizeof *all);
    if (all == NULL)
        return -1;
    watch->after = all;
    watch->after[watch->afters++] = (struct after){Py_NewRef(backward), Py_NewRef(edge->places), edge->slot, edge->shared};
    return expects(backward, edge->places, edge->to_leaf);
}

PyObject *nodes_place(Nodes *of, PyObject *const *args, Py_ssize_t count)
{
    if (count != 5 || !PyUnicode_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "place() takes a backward, a name, what is wanted, results and a floor");
    Py_ssize_t number;
    long long floor;
    if (number_of(Py_NewRef(args[4]), &floor) < 0)
        return NULL;
    struct result *results = results_of(of, args[3], &number);
    if (results == NULL)
        return NULL;
    struct walk walk = {.several = NULL};
    struct placing to = {args[0], args[1], args[2], PySet_New(NULL), 0};
    int failed = !to.passed || walk_from(of, &walk, results, number, to.wanted, floor) < 0;
    to.lowest = walk.lowest;
    for (Py_ssize_t i = 0; !failed && i < number; i++)
        failed = place_result(of, &to, &walk, results, number, &results[i]) < 0;
    failed = failed || set_lowest(to.backward, to.lowest) < 0;
    for (Py_ssize_t i = 0; !failed && i < walk.edges.count; i++)
        failed = place_edge(of, to.backward, &walk.edges.all[i]) < 0;
    free_walk(&walk);
    free_results(results, number);
    Py_XDECREF(to.passed);
    return none_or_error(failed);
}

PyObject *nodes_notice(Nodes *of, PyObject *outputs)
{
    PyObject *known = ours(of, outputs);
    Py_ssize_t number = 0;
    struct result *results = known ? results_among(of, known, &number) : NULL;
    int failed = results == NULL;
    for (Py_ssize_t i = 0; !failed && i < number; i++) {
        Watch *watch = watch_of(of, results[i].identity, results[i].node);
        failed = watch == NULL || listen(of, watch, results[i].node) < 0;
    }
    if (results != NULL)
        free_results(results, number);
    Py_XDECREF(known);
    return none_or_error(failed);
}

const char skeletons_doc[] = PyDoc_STR("skeletons(values, tensors)\n--\n\nAs `skeletons` of backward.py, as a tuple.");

PyObject *skeletons(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *values = count == 2 ? PySequence_Fast(args[0], "values are a sequence") : NULL;
    PyObject *tensors = values ? PySequence_Fast(args[1], "leaves are a sequence") : NULL;
    Py_ssize_t number = tensors ? PySequence_Fast_GET_SIZE(values) : 0, next = 0;
    PyObject *made = tensors ? PyTuple_New(number) : NULL;
    for (Py_ssize_t i = 0; made && i < number; i++) {
        PyObject *value = PySequence_Fast_GET_ITEM(values, i), *shape = NULL;
        if (PyList_CheckExact(value) || PyDict_CheckExact(value)) { /* leaves inside are behind it in `tensors` */
            PyObject *skeleton = of_python("skeleton"), *place = PyUnicode_FromFormat("%zd", i);
            shape = skeleton && place ? PyObject_CallFunctionObjArgs(skeleton, value, place, NULL) : NULL;
            Py_ssize_t length = place ? PyUnicode_GET_LENGTH(place) : 0;
            for (; shape && next < PySequence_Fast_GET_SIZE(tensors); next++) {
                PyObject *leaf = PySequence_Fast_GET_ITEM(tensors, next);
                PyObject *inside = is_leaf_tuple(leaf) ? PyTuple_GET_ITEM(leaf, 0) : NULL;
                if (inside == NULL || PyUnicode_GET_LENGTH(inside) <= length || PyUnicode_READ_CHAR(inside, length) != '.'
                    || PyUnicode_Tailmatch(inside, place, 0, length, -1) != 1)
                    break;
            }
            Py_XDECREF(skeleton);
            Py_XDECREF(place);
            if (PyErr_Occurred())
                Py_CLEAR(shape);
        } else {
            PyObject *leaf = next < PySequence_Fast_GET_SIZE(tensors) ? PySequence_Fast_GET_ITEM(tensors, next) : NULL;
            int is_next = leaf && is_leaf_tuple(leaf) && PyTuple_GET_ITEM(leaf, 1) == value;
            shape = PyErr_Occurred() ? NULL : Py_NewRef(is_next ? PyTuple_GET_ITEM(leaf, 0) : Py_None);
            next += is_next;
        }
        if (shape != NULL)
            PyTuple_SET_ITEM(made, i, shape);
        else
            Py_CLEAR(made);
    }
    if (count != 2)
        PyErr_Format(PyExc_TypeError, "skeletons() takes values and leaves");
    Py_XDECREF(values);
    Py_XDECREF(tensors);
    return made;
}
