/* Declarations shared by the sources of the extension `_gradients`.
 *
 * Ownership: a parameter is borrowed unless its declaration says `new`: then the function takes the reference. An object
 * that a function returns is new unless its declaration says `borrowed`; NULL is an error. A function that returns an int
 * returns -1 with an exception, else 0, or the answer to the question in its name.
 */

#ifndef MSPROBE_GRADIENTS_H
#define MSPROBE_GRADIENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <limits.h>
#include <stddef.h>
#include <string.h>

#define TAKES(function, how) (PyCFunction)(void (*)(void))function, how

#define NO_NODE LLONG_MAX /* above the sequence number of every node */

/* Names of attributes; new, never released. */
extern struct words {
    PyObject *is_quick, *reader, *tensor, *saves, *begin_backward, *end_backward, *collects_input, *collects_output;
    PyObject *busy, *api, *note, *closed, *guard, *keeps_backwards, *next_functions, *sequence, *prehook, *hook, *lowest, *expect;
} words;

extern PyObject *quote;         /* new: of the json module, a text as JSON in ASCII */
extern PyObject *kernel_record; /* new: `record` of the extension `base._statistic`; NULL if it was not built */
extern PyObject *leaf_source;   /* new: "leaf" as JSON */
extern PyObject *code_source;   /* new: "code" as JSON */

PyObject *none_or_error(int failed);
int flag(PyObject *of, PyObject *name);
PyObject *of_python(const char *name);

/* ---- _backward.c: the backward pass of a call ----------------------------------------------------------------- */

typedef struct backward {
    PyObject_HEAD
    PyObject *name, *at, *session, *describer; /* new */
    PyObject *above;                           /* new, or NULL */
    char begun, done, kept;
    long long lowest;
    Py_ssize_t waiting;
    PyObject *inner, *incoming, *expected, *outgoing, *arguments, *results; /* new, or NULL */
} Backward;

extern PyTypeObject PART, BACKWARD;

#define IS_OURS(value) Py_IS_TYPE(value, &BACKWARD)

typedef int Arrival(Backward *of, PyObject *place, PyObject *gradient, Py_ssize_t index, PyObject *memo, int shared);

int expect(Backward *of, PyObject *places, int to_leaf);
Arrival incoming, contribute;
int arrived(Backward *of);
int finish_all(Backward *of);

/* ---- _guard.c: hooks whose exceptions do not reach the training ------------------------------------------------- */

extern PyTypeObject GUARD, HOOK;

/* ---- _insistent.c: functions whose callers do not expect an exception --------------------------------------------- */

extern const char insistent_doc[];
PyObject *insistent(PyObject *module, PyObject *function);

/* ---- _gradients.c: nodes with hooks ------------------------------------------------------------------------------- */

struct before {
    PyObject *backward, *place; /* new */
    PyObject *passing;          /* new: places of the arguments that are the same tensor as the result; or NULL */
    Py_ssize_t index;
    int shared;
};

struct after {
    PyObject *backward, *places; /* new */
    Py_ssize_t slot;
    int shared;
};

struct producer {
    Py_ssize_t index;
    PyObject *text; /* new */
};

typedef struct {
    PyObject_HEAD
    PyObject *tensor, *name_of, *node_of, *index_of, *identity, *is_leaf, *probe, *when_backward_ends; /* new: methods of the graph */
    PyObject *make_hook, *flush, *final, *watches, *begun;                                             /* new */
    PyObject *weak;                                                                                    /* list of weak references, managed by Python */
    char running;
} Nodes;

/* A node with hooks of this tool; see the class of the same name in gradient.py. */
typedef struct {
    PyObject_HEAD
    Nodes *owner;         /* new, or NULL */
    PyObject *key, *node; /* new, or NULL after the node was released */
    long long sequence;
    int is_leaf, is_hooked;
    Py_ssize_t befores, afters, producers;
    struct before *before;
    struct after *after;
    struct producer *producer;
} Watch;

extern PyTypeObject WATCH;
extern PyMethodDef INCOMING, CONTRIBUTED;

void *grown(void *array, Py_ssize_t count, size_t size);
int number_of(PyObject *value /* new */, long long *number);
int sequence_of(PyObject *node, long long *number);
int is_true_of(PyObject *function, PyObject *value);
int called(PyObject *none /* new */);
int expects(PyObject *of, PyObject *places, int to_leaf);

/* ---- _placing.c: hooks placed on the nodes of a finished call ------------------------------------------------------ */

PyObject *nodes_inputs(Nodes *of, PyObject *tensors);
PyObject *nodes_probe(Nodes *of, PyObject *tensors);
PyObject *nodes_place(Nodes *of, PyObject *const *args, Py_ssize_t count);
PyObject *nodes_notice(Nodes *of, PyObject *outputs);

extern const char skeletons_doc[];
PyObject *skeletons(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
