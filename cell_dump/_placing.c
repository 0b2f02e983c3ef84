/* Hooks on the nodes of a finished call, and the producers of its arguments: `inputs`, `place` and `_walk` of gradient.py in C,
 * documented there.
 */

#include "_gradients.h"

/* A result of a call that has a node. */
struct result {
    PyObject *place, *identity, *key, *node; /* new */
    Py_ssize_t index;
};

/* An edge of the graph on which the gradient of an argument leaves a call. */
struct edge {
    PyObject *identity, *node, *places; /* new */
    Py_ssize_t slot;
    int shared, to_leaf;
};

struct edges {
    struct edge *all;
    Py_ssize_t count;
};

static int index_of(Nodes *nodes, PyObject *tensor, Py_ssize_t *index)
{
    PyObject *value = PyObject_CallOneArg(nodes->index_of, tensor); /* new */
    *index = value ? PyLong_AsSsize_t(value) : -1;
    Py_XDECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

/* Return (new) the tuple (identity, index). */
static PyObject *key_of(PyObject *identity, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index);                         /* new */
    PyObject *key = number ? PyTuple_Pack(2, identity, number) : NULL; /* new */
    Py_XDECREF(number);
    return key;
}

static int put_source(PyObject *sources, PyObject *tensor, PyObject *source)
{
    PyObject *id = PyLong_FromVoidPtr(tensor); /* new */
    int failed = id ? PyDict_SetItem(sources, id, source) : -1;
    Py_XDECREF(id);
    return failed;
}

/* Add a place to those of a key. */
static int put_wanted(PyObject *wanted, PyObject *key, PyObject *place)
{
    PyObject *known = PyDict_GetItemWithError(wanted, key);                                            /* borrowed */
    PyObject *one = PyErr_Occurred() ? NULL : PyTuple_Pack(1, place);                                  /* new */
    PyObject *places = one && known ? PySequence_Concat(known, one) : Py_XNewRef(one); /* new */
    int failed = places ? PyDict_SetItem(wanted, key, places) : -1;
    Py_XDECREF(one);
    Py_XDECREF(places);
    return failed;
}

/* Add the node of one argument to `wanted` and its producer to `sources`, and raise the floor. */
static int take_node(Nodes *nodes, PyObject *place, PyObject *tensor, PyObject *node, PyObject *wanted, PyObject *sources, long long *floor)
{
    PyObject *source = code_source;                                    /* borrowed */
    PyObject *identity = PyObject_CallOneArg(nodes->identity, node); /* new */
    PyObject *key = NULL;                                              /* new */
    Py_ssize_t index = 0;
    long long sequence = -1;
    int is_leaf = 0, failed = 1;
    if (identity == NULL || index_of(nodes, tensor, &index) < 0 || (key = key_of(identity, index)) == NULL)
        goto done;
    if (put_wanted(wanted, key, place) < 0)
        goto done;
    Watch *watch = (Watch *)PyDict_GetItemWithError(nodes->watches, identity); /* borrowed */
    if (watch != NULL) {
        is_leaf = watch->is_leaf;
        sequence = watch->sequence;
        for (Py_ssize_t i = 0; i < watch->producers; i++)
            if (watch->producer[i].index == index)
                source = watch->producer[i].text;
    } else if (PyErr_Occurred() || (is_leaf = is_true_of(nodes->is_leaf, node)) < 0)
        goto done;
    else if (is_leaf)
        source = leaf_source;
    else if (sequence_of(node, &sequence) < 0)
        goto done;
    if (put_source(sources, tensor, source) < 0)
        goto done;
    if (!is_leaf && sequence > *floor)
        *floor = sequence;
    failed = 0;
done:
    Py_XDECREF(identity);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

/* Add the name of a parameter as its source. */
static int take_name(Nodes *nodes, PyObject *tensor, PyObject *sources)
{
    PyObject *text = NULL, *source = NULL;                           /* new */
    PyObject *name = PyObject_CallOneArg(nodes->name_of, tensor); /* new */
    int has_name = name ? PyObject_IsTrue(name) : -1, failed = has_name < 0;
    if (has_name > 0) {
        text = PyUnicode_FromFormat("parameter %S", name);
        source = text ? PyObject_CallOneArg(quote, text) : NULL;
        failed = source == NULL || put_source(sources, tensor, source) < 0;
    }
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(source);
    return failed ? -1 : 0;
}

static int is_leaf_tuple(PyObject *leaf)
{
    if (PyTuple_Check(leaf) && PyTuple_GET_SIZE(leaf) == 2)
        return 1;
    PyErr_SetString(PyExc_TypeError, "a leaf is a place and a tensor");
    return 0;
}

/* Add one argument, a leaf of a tree: see `take_node` and `take_name`. */
static int take_input(Nodes *of, PyObject *leaf, PyObject *wanted, PyObject *sources, long long *floor)
{
    PyObject *node = NULL; /* new */
    int failed = 1;
    if (!is_leaf_tuple(leaf))
        goto done;
    PyObject *tensor = PyTuple_GET_ITEM(leaf, 1); /* borrowed */
    node = PyObject_CallOneArg(of->node_of, tensor);
    if (node == NULL) {
        failed = !PyErr_ExceptionMatches(PyExc_AttributeError); /* a tensor of another framework */
        if (!failed)
            PyErr_Clear();
        goto done;
    }
    failed = node != Py_None && take_node(of, PyTuple_GET_ITEM(leaf, 0), tensor, node, wanted, sources, floor) < 0;
    if (!failed && (PyObject *)Py_TYPE(tensor) != of->tensor)
        failed = take_name(of, tensor, sources) < 0;
done:
    Py_XDECREF(node);
    return failed ? -1 : 0;
}

PyObject *nodes_inputs(Nodes *of, PyObject *tensors)
{
    PyObject *all = PySequence_Fast(tensors, "leaves are a sequence"); /* new */
    PyObject *wanted = PyDict_New(), *sources = PyDict_New();          /* new */
    PyObject *made = NULL;                                             /* new */
    long long floor = -1;
    int failed = !all || !wanted || !sources;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(all); i++)
        failed = take_input(of, PySequence_Fast_GET_ITEM(all, i), wanted, sources, &floor) < 0;
    if (!failed)
        made = Py_BuildValue("(OLO)", wanted, floor, sources);
    Py_XDECREF(all);
    Py_XDECREF(wanted);
    Py_XDECREF(sources);
    return made;
}

/* Return (new) the leaves that are tensors of the framework. */
static PyObject *ours(Nodes *of, PyObject *tensors)
{
    PyObject *all = PySequence_Fast(tensors, "leaves are a sequence"); /* new */
    PyObject *made = all ? PyList_New(0) : NULL;                       /* new */
    for (Py_ssize_t i = 0; made && i < PySequence_Fast_GET_SIZE(all); i++) {
        PyObject *leaf = PySequence_Fast_GET_ITEM(all, i); /* borrowed */
        int is_ours = is_leaf_tuple(leaf) ? PyObject_IsInstance(PyTuple_GET_ITEM(leaf, 1), of->tensor) : -1;
        if (is_ours < 0 || (is_ours && PyList_Append(made, leaf) < 0))
            Py_CLEAR(made);
    }
    Py_XDECREF(all);
    return made;
}

PyObject *nodes_probe(Nodes *of, PyObject *tensors)
{
    PyObject *known = NULL;                                      /* new */
    PyObject *found = PyObject_CallOneArg(of->probe, tensors); /* new */
    if (found != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) /* of a tensor of another framework */
        goto done;
    PyErr_Clear();
    known = ours(of, tensors);
    found = known ? PyObject_CallOneArg(of->probe, known) : NULL;
done:
    Py_XDECREF(known);
    return found;
}

static void free_results(struct result *all /* owned */, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(all[i].place);
        Py_XDECREF(all[i].identity);
        Py_XDECREF(all[i].key);
        Py_XDECREF(all[i].node);
    }
    PyMem_Free(all);
}

/* 1: a result was read, 0: the leaf has no node, -1: an exception. What was read is to be freed in each case. */
static int read_result(Nodes *of, PyObject *leaf, struct result *to)
{
    if (!is_leaf_tuple(leaf))
        return -1;
    PyObject *tensor = PyTuple_GET_ITEM(leaf, 1); /* borrowed */
    to->node = PyObject_CallOneArg(of->node_of, tensor);
    if (to->node == NULL)
        return -1;
    if (to->node == Py_None) {
        Py_CLEAR(to->node);
        return 0;
    }
    to->place = Py_NewRef(PyTuple_GET_ITEM(leaf, 0));
    to->identity = PyObject_CallOneArg(of->identity, to->node);
    if (to->identity == NULL || index_of(of, tensor, &to->index) < 0)
        return -1;
    to->key = key_of(to->identity, to->index);
    return to->key ? 1 : -1;
}

/* Return the results among leaves that have a node, owned by the caller; NULL with an exception, that of a tensor of
 * another framework too.
 */
static struct result *results_among(Nodes *of, PyObject *leaves, Py_ssize_t *count)
{
    struct result *made = NULL;                                       /* owned */
    PyObject *all = PySequence_Fast(leaves, "leaves are a sequence"); /* new */
    *count = 0;
    if (all == NULL)
        goto done;
    made = PyMem_Calloc((size_t)PySequence_Fast_GET_SIZE(all) + 1, sizeof *made);
    if (made == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(all); i++) {
        int state = read_result(of, PySequence_Fast_GET_ITEM(all, i), &made[*count]);
        if (state < 0) {
            free_results(made, *count + 1);
            made = NULL;
            *count = 0;
            goto done;
        }
        *count += state;
    }
done:
    Py_XDECREF(all);
    return made;
}

static struct result *results_of(Nodes *of, PyObject *leaves, Py_ssize_t *count)
{
    PyObject *known = NULL;                                   /* new */
    struct result *made = results_among(of, leaves, count); /* owned */
    if (made != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError))
        goto done;
    PyErr_Clear();
    known = ours(of, leaves);
    made = known ? results_among(of, known, count) : NULL;
done:
    Py_XDECREF(known);
    return made;
}

static int put_edge(struct edges *to, PyObject *identity, PyObject *node, Py_ssize_t slot, PyObject *places, int shared, int to_leaf)
{
    struct edge *all = grown(to->all, to->count, sizeof *all); /* owned by `to` */
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

/* Result of a walk. */
struct walk {
    struct edges edges, todo; /* in `todo`, only the identity and the node are used */
    PyObject *inside, *seen; /* new: sets */
    PyObject *several;       /* new: a dict, created on first use */
    long long lowest;
};

/* Add one of several consumers of an argument that occurs at several places. */
static int put_several(struct walk *walk, PyObject *end, PyObject *identity, PyObject *node, Py_ssize_t slot, int to_leaf)
{
    if (walk->several == NULL && (walk->several = PyDict_New()) == NULL)
        return -1;
    PyObject *made = PyList_New(0);                                                                /* new */
    PyObject *list = made ? PyDict_SetDefault(walk->several, end, made) : NULL;                    /* borrowed */
    PyObject *consumer = list ? Py_BuildValue("(OOni)", identity, node, slot, to_leaf) : NULL; /* new */
    int failed = consumer ? PyList_Append(list, consumer) : -1;
    Py_XDECREF(made);
    Py_XDECREF(consumer);
    return failed;
}

static int follow(Nodes *of, struct walk *walk, PyObject *identity, PyObject *node, Py_ssize_t slot, PyObject *edge, PyObject *wanted)
{
    PyObject *below, *index;           /* borrowed */
    PyObject *end = NULL, *key = NULL; /* new */
    int failed = 1, to_leaf = 0;
    if (!PyArg_ParseTuple(edge, "OO;an edge of the graph", &below, &index))
        goto done;
    if (below == Py_None) {
        failed = 0;
        goto done;
    }
    end = PyObject_CallOneArg(of->identity, below);
    key = end ? PyTuple_Pack(2, end, index) : NULL;
    if (key == NULL)
        goto done;
    PyObject *places = PyDict_GetItemWithError(wanted, key); /* borrowed */
    if (places == NULL && PyErr_Occurred())
        goto done;
    if (places == NULL) {
        failed = PySet_Add(walk->inside, key) < 0 || put_edge(&walk->todo, end, below, 0, Py_None, 0, 0) < 0;
        goto done;
    }
    to_leaf = is_true_of(of->is_leaf, below);
    if (to_leaf < 0)
        goto done;
    if (PyTuple_GET_SIZE(places) == 1)
        failed = put_edge(&walk->edges, identity, node, slot, places, 0, to_leaf) < 0;
    else
        failed = put_several(walk, key, identity, node, slot, to_leaf) < 0;
done:
    Py_XDECREF(end);
    Py_XDECREF(key);
    return failed ? -1 : 0;
}

static int visit_node(Nodes *of, struct walk *walk, PyObject *identity, PyObject *node, PyObject *wanted, long long floor)
{
    PyObject *below = NULL, *all = NULL; /* new */
    long long sequence;
    int is_seen = PySet_Contains(walk->seen, identity), failed = is_seen < 0;
    if (is_seen)
        goto done;
    failed = sequence_of(node, &sequence) < 0;
    if (failed || sequence <= floor)
        goto done;
    failed = PySet_Add(walk->seen, identity) < 0;
    if (failed)
        goto done;
    if (sequence < walk->lowest)
        walk->lowest = sequence;
    below = PyObject_GetAttr(node, words.next_functions);
    all = below ? PySequence_Fast(below, "the edges are a sequence") : NULL;
    failed = all == NULL;
    for (Py_ssize_t slot = 0; !failed && slot < PySequence_Fast_GET_SIZE(all); slot++)
        failed = follow(of, walk, identity, node, slot, PySequence_Fast_GET_ITEM(all, slot), wanted) < 0;
done:
    Py_XDECREF(below);
    Py_XDECREF(all);
    return failed ? -1 : 0;
}

/* Return whether one node uses an argument at all of its places. */
static int is_one_consumer(PyObject *consumers, PyObject *places)
{
    Py_ssize_t count = PyList_GET_SIZE(consumers);
    int is_one = PyTuple_GET_SIZE(places) == count;
    for (Py_ssize_t i = 1; is_one == 1 && i < count; i++)
        is_one = PyObject_RichCompareBool(PyTuple_GET_ITEM(PyList_GET_ITEM(consumers, 0), 0),
                                          PyTuple_GET_ITEM(PyList_GET_ITEM(consumers, i), 0), Py_EQ);
    return is_one;
}

/* Add the edges of arguments at several places: one edge for each place if one node uses them all, otherwise shared ones. */
static int sort_several(struct walk *walk, PyObject *wanted)
{
    PyObject *end, *consumers; /* borrowed */
    Py_ssize_t at = 0;
    int failed = 0;
    while (!failed && walk->several && PyDict_Next(walk->several, &at, &end, &consumers)) {
        PyObject *places = PyDict_GetItemWithError(wanted, end); /* borrowed */
        int is_one = places ? is_one_consumer(consumers, places) : -1;
        if (places == NULL && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, end);
        failed = is_one < 0;
        for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(consumers); i++) {
            PyObject *identity, *node; /* borrowed */
            Py_ssize_t slot;
            int to_leaf;
            failed = !PyArg_ParseTuple(PyList_GET_ITEM(consumers, i), "OOni", &identity, &node, &slot, &to_leaf);
            if (failed)
                break;
            PyObject *own = is_one ? PyTuple_GetSlice(places, i, i + 1) : Py_NewRef(places); /* new */
            failed = own == NULL || put_edge(&walk->edges, identity, node, slot, own, !is_one, to_leaf) < 0;
            Py_XDECREF(own);
        }
    }
    return failed ? -1 : 0;
}

static int walk_from(Nodes *of, struct walk *walk, struct result *results, Py_ssize_t count, PyObject *wanted, long long floor)
{
    walk->lowest = NO_NODE;
    walk->inside = PySet_New(NULL);
    walk->seen = PySet_New(NULL);
    int failed = !walk->inside || !walk->seen;
    for (Py_ssize_t i = 0; !failed && i < count; i++) {
        int is_argument = PyDict_Contains(wanted, results[i].key);
        failed = is_argument < 0 || (!is_argument && put_edge(&walk->todo, results[i].identity, results[i].node, 0, Py_None, 0, 0) < 0);
    }
    while (!failed && walk->todo.count) {
        struct edge last = walk->todo.all[--walk->todo.count]; /* owned */
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

/* Return the watch of a node, borrowed from the dict that holds it. */
static Watch *watch_of(Nodes *of, PyObject *identity, PyObject *node)
{
    Watch *made = NULL;                                                         /* new */
    Watch *found = (Watch *)PyDict_GetItemWithError(of->watches, identity); /* borrowed */
    long long sequence;
    if (found != NULL || PyErr_Occurred())
        goto done;
    int is_leaf = is_true_of(of->is_leaf, node);
    if (is_leaf < 0 || sequence_of(node, &sequence) < 0)
        goto done;
    made = (Watch *)WATCH.tp_alloc(&WATCH, 0);
    if (made == NULL)
        goto done;
    made->owner = (Nodes *)Py_NewRef(of);
    made->key = Py_NewRef(identity);
    made->node = Py_NewRef(node);
    made->sequence = sequence;
    made->is_leaf = is_leaf;
    if (PyDict_SetItem(of->watches, identity, (PyObject *)made) == 0)
        found = made;
done:
    Py_XDECREF(made);
    return found;
}

/* Register a hook on a node, with one of its methods. */
static int register_on(Nodes *of, PyObject *node, PyObject *method, PyMethodDef *work, Watch *watch)
{
    PyObject *function = PyCFunction_New(work, (PyObject *)watch);                    /* new */
    PyObject *hook = function ? PyObject_CallOneArg(of->make_hook, function) : NULL; /* new */
    PyObject *handle = hook ? PyObject_CallMethodOneArg(node, method, hook) : NULL; /* new */
    int failed = handle == NULL;
    Py_XDECREF(function);
    Py_XDECREF(hook);
    Py_XDECREF(handle);
    return failed ? -1 : 0;
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
    PyObject *text = NULL, *quoted = NULL; /* new */
    int failed = 0;
    for (Py_ssize_t i = 0; i < watch->producers; i++)
        if (watch->producer[i].index == index) /* the first producer counts */
            goto done;
    failed = 1;
    text = PyUnicode_FromFormat("call %U.output.%U", call, place);
    quoted = text ? PyObject_CallOneArg(quote, text) : NULL;
    struct producer *all = quoted ? grown(watch->producer, watch->producers, sizeof *all) : NULL; /* owned by the watch */
    if (all == NULL)
        goto done;
    watch->producer = all;
    watch->producer[watch->producers++] = (struct producer){index, Py_NewRef(quoted)};
    failed = 0;
done:
    Py_XDECREF(text);
    Py_XDECREF(quoted);
    return failed ? -1 : 0;
}

static int set_lowest(PyObject *backward, long long lowest)
{
    if (IS_OURS(backward)) {
        ((Backward *)backward)->lowest = lowest;
        return 0;
    }
    PyObject *number = PyLong_FromLongLong(lowest); /* new */
    int failed = number ? PyObject_SetAttr(backward, words.lowest, number) : -1;
    Py_XDECREF(number);
    return failed;
}

/* Return whether a result is one of several that are the same tensor. */
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

/* State while the hooks of a call are placed. */
struct placing {
    PyObject *backward, *call, *wanted; /* borrowed */
    PyObject *passed;                   /* new: a set */
    long long lowest;
};

static int place_result(Nodes *of, struct placing *to, const struct walk *walk, const struct result *results, Py_ssize_t count, const struct result *one)
{
    Watch *watch = watch_of(of, one->identity, one->node);                                        /* borrowed */
    PyObject *passing = watch ? PyDict_GetItemWithError(to->wanted, one->key) : NULL; /* borrowed */
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
    struct before *all = shared < 0 ? NULL : grown(watch->before, watch->befores, sizeof *all); /* owned by the watch */
    if (all == NULL)
        return -1;
    watch->before = all;
    watch->before[watch->befores++] = (struct before){Py_NewRef(to->backward), Py_NewRef(one->place), Py_XNewRef(passing), one->index, shared};
    return expects(to->backward, passing, 0);
}

static int place_edge(Nodes *of, PyObject *backward, const struct edge *edge)
{
    Watch *watch = watch_of(of, edge->identity, edge->node); /* borrowed */
    if (watch == NULL || (!watch->afters && register_on(of, edge->node, words.hook, &CONTRIBUTED, watch) < 0))
        return -1;
    struct after *all = grown(watch->after, watch->afters, sizeof *all); /* owned by the watch */
    if (all == NULL)
        return -1;
    watch->after = all;
    watch->after[watch->afters++] = (struct after){Py_NewRef(backward), Py_NewRef(edge->places), edge->slot, edge->shared};
    return expects(backward, edge->places, edge->to_leaf);
}

PyObject *nodes_place(Nodes *of, PyObject *const *args, Py_ssize_t count)
{
    struct result *results = NULL; /* owned */
    struct walk walk = {.several = NULL};
    struct placing to = {.passed = NULL};
    Py_ssize_t number = 0;
    long long floor;
    int failed = 1;
    if (count != 5 || !PyUnicode_Check(args[1]) || !PyDict_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "place() takes a backward, a name, what is wanted, results and a floor");
        goto done;
    }
    if (number_of(Py_NewRef(args[4]), &floor) < 0 || (results = results_of(of, args[3], &number)) == NULL)
        goto done;
    to = (struct placing){.backward = args[0], .call = args[1], .wanted = args[2], .passed = PySet_New(NULL)};
    if (to.passed == NULL || walk_from(of, &walk, results, number, to.wanted, floor) < 0)
        goto done;
    to.lowest = walk.lowest;
    for (Py_ssize_t i = 0; i < number; i++)
        if (place_result(of, &to, &walk, results, number, &results[i]) < 0)
            goto done;
    if (set_lowest(to.backward, to.lowest) < 0)
        goto done;
    for (Py_ssize_t i = 0; i < walk.edges.count; i++)
        if (place_edge(of, to.backward, &walk.edges.all[i]) < 0)
            goto done;
    failed = 0;
done:
    free_walk(&walk);
    free_results(results, number);
    Py_XDECREF(to.passed);
    return none_or_error(failed);
}

PyObject *nodes_notice(Nodes *of, PyObject *outputs)
{
    PyObject *known = ours(of, outputs); /* new */
    Py_ssize_t number = 0;
    struct result *results = known ? results_among(of, known, &number) : NULL; /* owned */
    int failed = results == NULL;
    for (Py_ssize_t i = 0; !failed && i < number; i++) {
        Watch *watch = watch_of(of, results[i].identity, results[i].node); /* borrowed */
        failed = watch == NULL || listen(of, watch, results[i].node) < 0;
    }
    free_results(results, results ? number : 0);
    Py_XDECREF(known);
    return none_or_error(failed);
}

const char skeletons_doc[] = PyDoc_STR("skeletons(values, tensors)\n--\n\nReturn the same as `skeletons` of backward.py, as a tuple.");

/* Return (new) the skeleton of a container, and skip the leaves inside it, which follow in `tensors`. */
static PyObject *skeleton_of(PyObject *value, Py_ssize_t at, PyObject *tensors, Py_ssize_t *next)
{
    PyObject *skeleton = of_python("skeleton");                                                                   /* new */
    PyObject *place = PyUnicode_FromFormat("%zd", at);                                                            /* new */
    PyObject *shape = skeleton && place ? PyObject_CallFunctionObjArgs(skeleton, value, place, NULL) : NULL; /* new */
    Py_ssize_t length = place ? PyUnicode_GET_LENGTH(place) : 0;
    for (; shape && *next < PySequence_Fast_GET_SIZE(tensors); *next += 1) {
        PyObject *leaf = PySequence_Fast_GET_ITEM(tensors, *next);                     /* borrowed */
        PyObject *inside = is_leaf_tuple(leaf) ? PyTuple_GET_ITEM(leaf, 0) : NULL; /* borrowed */
        if (inside == NULL || PyUnicode_GET_LENGTH(inside) <= length || PyUnicode_READ_CHAR(inside, length) != '.'
            || PyUnicode_Tailmatch(inside, place, 0, length, -1) != 1)
            break;
    }
    if (PyErr_Occurred())
        Py_CLEAR(shape);
    Py_XDECREF(skeleton);
    Py_XDECREF(place);
    return shape;
}

/* Return (new) the place of a value that is the next tensor, and skip the tensor; None for any other value. */
static PyObject *place_of(PyObject *value, PyObject *tensors, Py_ssize_t *next)
{
    if (*next == PySequence_Fast_GET_SIZE(tensors))
        return Py_NewRef(Py_None);
    PyObject *leaf = PySequence_Fast_GET_ITEM(tensors, *next); /* borrowed */
    if (!is_leaf_tuple(leaf))
        return NULL;
    if (PyTuple_GET_ITEM(leaf, 1) != value)
        return Py_NewRef(Py_None);
    *next += 1;
    return Py_NewRef(PyTuple_GET_ITEM(leaf, 0));
}

PyObject *skeletons(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *values = NULL, *tensors = NULL, *made = NULL; /* new */
    Py_ssize_t next = 0;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "skeletons() takes values and leaves");
        goto done;
    }
    values = PySequence_Fast(args[0], "values are a sequence");
    tensors = values ? PySequence_Fast(args[1], "leaves are a sequence") : NULL;
    made = tensors ? PyTuple_New(PySequence_Fast_GET_SIZE(values)) : NULL;
    for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(made); i++) {
        PyObject *value = PySequence_Fast_GET_ITEM(values, i); /* borrowed */
        int is_container = PyList_CheckExact(value) || PyDict_CheckExact(value);
        PyObject *shape = is_container ? skeleton_of(value, i, tensors, &next) : place_of(value, tensors, &next); /* new */
        if (shape != NULL)
            PyTuple_SET_ITEM(made, i, shape);
        else
            Py_CLEAR(made);
    }
done:
    Py_XDECREF(values);
    Py_XDECREF(tensors);
    return made;
}
