/* The entries of a dump.json that are like most, scanned into columns without an object in between; see flatten.py.

   Scanning stops before the first entry that has anything unusual: an escape in a text, a number that is not finite or
   is whole where most have a fraction, a member of another type, parts in another order. Such an entry leaves nothing
   behind, and is read by Python, which knows what is right then. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "_schema.h"

enum { DEEPEST = 32, MOST_MEMBERS = 256, MOST_AXES = 32 };
enum { TENSOR, VALUE, NIL }; /* places in KINDS of record.py */
enum { INPUT, PARAMETERS, OUTPUT }; /* places in PARTS */

struct slice {
    const char *begin;
    Py_ssize_t length;
};

/* A table from bytes to numbers, for paths and looks. */
struct known {
    char *key;
    size_t length;
    int32_t number;
};

struct table {
    struct known *slots;
    size_t size, used; /* size is a power of two */
};

/* What few rows have, kept until their entry is whole. */
struct rare {
    PyObject *column; /* a dict by row, borrowed */
    Py_ssize_t row;
    PyObject *value;
};

typedef struct {
    PyObject_HEAD
    PyObject *path_number, *look_number, *paths;
    PyObject *digest, *file, *source, *gradient, *values; /* dicts by row */
    PyObject *gradients, *sources; /* numbers of gradients by their words; each source once */
    PyObject *names;
    struct table paths_known, looks_known;
    int64_t *starts;
    unsigned char *part, *kind;
    int32_t *path, *look;
    double *numbers; /* row after row */
    Py_ssize_t calls, rows, most_calls, most_rows;
    struct rare *rare;
    Py_ssize_t rares, most_rares;
    Py_ssize_t base; /* rows that are columns already */
    const char *at, *end;
    int root;
} Entries;

/* 1: done. 0: something unusual. -1: a Python error. */

static uint64_t hash(const char *key, size_t length)
{
    uint64_t found = 14695981039346656037ULL;
    for (size_t n = 0; n < length; n++)
        found = (found ^ (unsigned char)key[n]) * 1099511628211ULL;
    return found ^ (found >> 29);
}

static struct known *look_up(struct table *table, const char *key, size_t length)
{
    if (2 * table->used >= table->size) {
        size_t size = table->size ? 2 * table->size : 256;
        struct known *slots = PyMem_Calloc(size, sizeof *slots);
        if (!slots) {
            PyErr_NoMemory();
            return NULL;
        }
        for (size_t n = 0; n < table->size; n++) {
            struct known one = table->slots[n];
            if (!one.key)
                continue;
            size_t at = hash(one.key, one.length) & (size - 1);
            while (slots[at].key)
                at = (at + 1) & (size - 1);
            slots[at] = one;
        }
        PyMem_Free(table->slots);
        table->slots = slots;
        table->size = size;
    }
    size_t at = hash(key, length) & (table->size - 1);
    while (table->slots[at].key) {
        struct known *one = &table->slots[at];
        if (one->length == length && memcmp(one->key, key, length) == 0)
            return one;
        at = (at + 1) & (table->size - 1);
    }
    return &table->slots[at];
}

/* Enter a number that Python gave, or its error. */
static int enter(struct table *table, struct known *slot, const char *key, size_t length, PyObject *made)
{
    long number = made ? PyLong_AsLong(made) : -1;
    Py_XDECREF(made);
    if (PyErr_Occurred())
        return -1;
    char *copy = PyMem_Malloc(length + 1);
    if (!copy) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(copy, key, length);
    slot->key = copy;
    slot->length = length;
    slot->number = (int32_t)number;
    table->used++;
    return 1;
}

static void clear(struct table *table)
{
    for (size_t n = 0; n < table->size; n++)
        PyMem_Free(table->slots[n].key);
    PyMem_Free(table->slots);
}

/* The number of the path that `key` leads to from another. */
static int child(Entries *self, int path, struct slice key, int *number)
{
    char text[512];
    if ((size_t)key.length > sizeof text - sizeof path)
        return 0;
    memcpy(text, &path, sizeof path);
    memcpy(text + sizeof path, key.begin, (size_t)key.length);
    size_t length = sizeof path + (size_t)key.length;
    struct known *slot = look_up(&self->paths_known, text, length);
    if (!slot)
        return -1;
    if (!slot->key) {
        PyObject *last = Py_BuildValue("(s#)", key.begin, key.length);
        PyObject *before = PyList_GetItem(self->paths, path); /* borrowed */
        PyObject *whole = last && before ? PySequence_Concat(before, last) : NULL;
        Py_XDECREF(last);
        PyObject *made = whole ? PyObject_CallOneArg(self->path_number, whole) : NULL;
        Py_XDECREF(whole);
        if (enter(&self->paths_known, slot, text, length, made) < 0)
            return -1;
    }
    *number = slot->number;
    return 1;
}

static int look(Entries *self, struct slice type, struct slice dtype, const int64_t *shape, int axes, int32_t *number)
{
    char text[1024];
    size_t length = (size_t)type.length + (size_t)dtype.length + 3 + (axes > 0 ? (size_t)axes * sizeof *shape : 0);
    if (length > sizeof text)
        return 0;
    char *to = text;
    *to++ = axes < 0 ? 'v' : 't';
    memcpy(to, type.begin, (size_t)type.length);
    to += type.length;
    *to++ = 0;
    memcpy(to, dtype.begin, (size_t)dtype.length);
    to += dtype.length;
    *to++ = 0;
    if (axes > 0)
        memcpy(to, shape, (size_t)axes * sizeof *shape);
    struct known *slot = look_up(&self->looks_known, text, length);
    if (!slot)
        return -1;
    if (!slot->key) {
        PyObject *lengths = axes < 0 ? Py_NewRef(Py_None) : PyTuple_New(axes);
        for (int n = 0; lengths && n < axes; n++) {
            PyObject *one = PyLong_FromLongLong(shape[n]);
            if (!one)
                Py_CLEAR(lengths);
            else
                PyTuple_SET_ITEM(lengths, n, one);
        }
        PyObject *made = lengths ? PyObject_CallFunction(self->look_number, "s#s#N", type.begin, type.length,
                                                         dtype.begin, dtype.length, lengths)
                                 : NULL;
        if (enter(&self->looks_known, slot, text, length, made) < 0)
            return -1;
    }
    *number = slot->number;
    return 1;
}

static void pass_space(Entries *self)
{
    while (self->at < self->end && (*self->at == ' ' || *self->at == '\n' || *self->at == '\t' || *self->at == '\r'))
        self->at++;
}

/* Whether a sign follows, which is passed with the space before and behind it. */
static int sign(Entries *self, char wanted)
{
    pass_space(self);
    if (self->at == self->end || *self->at != wanted)
        return 0;
    self->at++;
    pass_space(self);
    return 1;
}

/* A text without escapes. */
static int text(Entries *self, struct slice *found)
{
    if (self->at == self->end || *self->at != '"')
        return 0;
    const char *begin = ++self->at;
    while (self->at < self->end && *self->at != '"') {
        if (*self->at == '\\' || (unsigned char)*self->at < 0x20)
            return 0;
        self->at++;
    }
    if (self->at == self->end)
        return 0;
    found->begin = begin;
    found->length = self->at - begin;
    self->at++;
    return 1;
}

static int is(struct slice found, const char *word)
{
    return (size_t)found.length == strlen(word) && memcmp(found.begin, word, (size_t)found.length) == 0;
}

static int word(Entries *self, const char *wanted)
{
    Py_ssize_t length = (Py_ssize_t)strlen(wanted);
    if (self->end - self->at <= length || memcmp(self->at, wanted, (size_t)length) != 0)
        return 0;
    self->at += length;
    return 1;
}

/* `digits` times a power of ten, correctly rounded. Digits and powers up to 10^27 have no error in a long double of 64
   bits, so its one rounding is off by at most half a unit; unless that leaves it next to the middle between two doubles,
   the nearest of them is the nearest to the number itself. */
static int nearest(uint64_t digits, int power, double *found)
{
#if LDBL_MANT_DIG == 64
    static const long double POWERS[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,
                                         1e10L, 1e11L, 1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L,
                                         1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};
    if (power < -27 || power > 27)
        return 0;
    volatile long double made = digits;
    made = power < 0 ? made / POWERS[-power] : made * POWERS[power];
    long double whole = made;
    uint64_t bits;
    memcpy(&bits, &whole, sizeof bits);
    unsigned tail = bits & 0x7FF;
    if (tail >= 0x3FF && tail <= 0x401)
        return 0;
    *found = (double)whole;
    return 1;
#else
    (void)digits, (void)power, (void)found;
    return 0;
#endif
}

/* A number as JSON writes it. `whole`: it has neither fraction nor exponent, and Python makes an int of it. */
static int number(Entries *self, double *found, int64_t *whole)
{
    const char *begin = self->at, *at = begin, *end = self->end;
    int is_below = at < end && *at == '-', significant = 0, power = 0, is_float = 0;
    uint64_t digits = 0;
    at += is_below;
    if (at == end || *at < '0' || *at > '9' || (*at == '0' && at + 1 < end && at[1] >= '0' && at[1] <= '9'))
        return 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        significant += significant || *at != '0';
        digits = significant <= 19 ? 10 * digits + (uint64_t)(*at - '0') : digits;
    }
    if (at < end && *at == '.') {
        const char *point = at++;
        is_float = 1;
        for (; at < end && *at >= '0' && *at <= '9'; at++) {
            significant += significant || *at != '0';
            digits = significant <= 19 ? 10 * digits + (uint64_t)(*at - '0') : digits;
        }
        power = (int)(point + 1 - at);
        if (!power)
            return 0;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        int exponent = 0, is_down;
        is_float = 1;
        at++;
        is_down = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        const char *first = at;
        for (; at < end && *at >= '0' && *at <= '9'; at++)
            exponent = exponent < 10000 ? 10 * exponent + (*at - '0') : exponent;
        if (at == first)
            return 0;
        power += is_down ? -exponent : exponent;
    }
    if (at == end) /* it may go on */
        return 0;
    self->at = at;
    if (!is_float) {
        if (whole == NULL || significant > 18)
            return 0;
        *whole = is_below ? -(int64_t)digits : (int64_t)digits;
        return 2;
    }
    if (!significant)
        *found = 0.0;
    else if (significant > 19 || !nearest(digits, power, found)) {
        char copy[64];
        if ((size_t)(at - begin) >= sizeof copy)
            return 0;
        memcpy(copy, begin, (size_t)(at - begin));
        copy[at - begin] = 0;
        *found = PyOS_string_to_double(copy, NULL, NULL);
        if (*found == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        return *found - *found == 0;
    }
    if (is_below)
        *found = -*found;
    return 1;
}

/* A value that is no tensor: a scalar, or a list of such. NULL without an error: something unusual. */
static PyObject *plain(Entries *self, int depth)
{
    struct slice found;
    double real;
    int64_t whole;
    if (self->at == self->end || depth > 3)
        return NULL;
    switch (*self->at) {
    case '"':
        return text(self, &found) ? PyUnicode_FromStringAndSize(found.begin, found.length) : NULL;
    case 't':
        return word(self, "true") ? Py_NewRef(Py_True) : NULL;
    case 'f':
        return word(self, "false") ? Py_NewRef(Py_False) : NULL;
    case 'n':
        return word(self, "null") ? Py_NewRef(Py_None) : NULL;
    case '[':
        break;
    default:
        switch (number(self, &real, &whole)) {
        case 1:
            return PyFloat_FromDouble(real);
        case 2:
            return PyLong_FromLongLong(whole);
        default:
            return NULL;
        }
    }
    PyObject *list = PyList_New(0);
    if (!list || !sign(self, '[') || sign(self, ']'))
        return list;
    do {
        PyObject *one = plain(self, depth + 1);
        int is_bad = !one || PyList_Append(list, one) < 0;
        Py_XDECREF(one);
        if (is_bad) {
            Py_DECREF(list);
            return NULL;
        }
    } while (sign(self, ','));
    if (!sign(self, ']'))
        Py_CLEAR(list);
    return list;
}

/* Make room for a row; -1 where there is none. */
static int grow(Entries *self)
{
    if (self->rows < self->most_rows)
        return 1;
    Py_ssize_t most = self->most_rows ? 2 * self->most_rows : 4096;
    void *part = PyMem_Realloc(self->part, (size_t)most);
    if (part)
        self->part = part;
    void *kind = PyMem_Realloc(self->kind, (size_t)most);
    if (kind)
        self->kind = kind;
    void *path = PyMem_Realloc(self->path, (size_t)most * sizeof *self->path);
    if (path)
        self->path = path;
    void *looks = PyMem_Realloc(self->look, (size_t)most * sizeof *self->look);
    if (looks)
        self->look = looks;
    int is_done = part && kind && path && looks;
    void *numbers = PyMem_Realloc(self->numbers, (size_t)most * NUMBERS * sizeof(double));
    if (numbers)
        self->numbers = numbers;
    if (!is_done || !numbers) {
        PyErr_NoMemory();
        return -1;
    }
    self->most_rows = most;
    return 1;
}

static int row(Entries *self, int part, int kind, int path, int32_t looks, const double *numbers)
{
    int state = grow(self);
    if (state < 1)
        return state;
    Py_ssize_t at = self->rows++;
    self->part[at] = (unsigned char)part;
    self->kind[at] = (unsigned char)kind;
    self->path[at] = path;
    self->look[at] = looks;
    for (int n = 0; n < NUMBERS; n++)
        self->numbers[at * NUMBERS + n] = numbers ? numbers[n] : Py_NAN;
    return 1;
}

/* Keep what few rows have, of the row that comes next; `value` is stolen. */
static int keep(Entries *self, PyObject *column, PyObject *value)
{
    if (!value)
        return -1;
    if (self->rares == self->most_rares) {
        Py_ssize_t most = self->most_rares ? 2 * self->most_rares : 64;
        struct rare *rare = PyMem_Realloc(self->rare, (size_t)most * sizeof *rare);
        if (!rare) {
            Py_DECREF(value);
            PyErr_NoMemory();
            return -1;
        }
        self->rare = rare;
        self->most_rares = most;
    }
    self->rare[self->rares++] = (struct rare){column, self->base + self->rows, value};
    return 1;
}

/* What a leaf says. `seen` has a bit for each of its members that is known. */
struct leaf {
    struct slice type, dtype, words[4];
    int64_t shape[MOST_AXES];
    int axes;
    double numbers[NUMBERS];
    PyObject *value;
    unsigned seen;
};

enum { DTYPE = NUMBERS, SHAPE, VALUE_OF, WORDS }; /* bits; the numbers are the first, the four words the last */

static const char *const KEYS[] = NUMBER_KEYS;
static const char *const WORDS_OF[] = {DIGEST_NAME, "data_name", "from", "gradient"};

static int lengths(Entries *self, struct leaf *leaf)
{
    double elements = 1;
    if (!sign(self, '['))
        return 0;
    if (sign(self, ']'))
        return 1;
    do {
        double unused;
        int64_t length;
        if (leaf->axes == MOST_AXES || number(self, &unused, &length) != 2 || length < 0)
            return 0;
        leaf->shape[leaf->axes++] = length;
        elements *= (double)(length ? length : 1);
    } while (sign(self, ','));
    return sign(self, ']') && elements < 9e18;
}

static int member(Entries *self, struct leaf *leaf, struct slice key)
{
    int bit = -1, state = 1;
    for (int n = 0; n < NUMBERS; n++)
        bit = is(key, KEYS[n]) ? n : bit;
    for (int n = 0; n < 4; n++)
        bit = is(key, WORDS_OF[n]) ? WORDS + n : bit;
    bit = is(key, "dtype") ? DTYPE : is(key, "shape") ? SHAPE : is(key, "value") ? VALUE_OF : bit;
    if (is(key, "type") || is(key, "tensor_stat_index") || (bit >= 0 && leaf->seen & 1u << bit))
        return 0;
    if (bit < 0) { /* says nothing that is read here */
        static const char *const OPTIONAL[] = OPTIONAL_KEYS;
        for (size_t n = 0; n < sizeof OPTIONAL / sizeof *OPTIONAL; n++)
            if (is(key, OPTIONAL[n]))
                return 0;
        PyObject *unread = plain(self, 0);
        state = unread ? 1 : PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(unread);
        return state;
    }
    leaf->seen |= 1u << bit;
    if (bit < DTYPE)
        return number(self, &leaf->numbers[bit], NULL) == 1;
    if (bit == DTYPE)
        return text(self, &leaf->dtype);
    if (bit == SHAPE)
        return lengths(self, leaf);
    if (bit >= WORDS)
        return text(self, &leaf->words[bit - WORDS]) && leaf->words[bit - WORDS].length;
    leaf->value = plain(self, 0);
    return leaf->value ? 1 : PyErr_Occurred() ? -1 : 0;
}

static int keep_words(Entries *self, struct leaf *leaf)
{
    PyObject *columns[] = {self->digest, self->file, self->source, self->gradient};
    int state = 1;
    for (int n = 0; n < 4 && state == 1; n++) {
        if (!(leaf->seen & 1u << (WORDS + n)))
            continue;
        PyObject *made = PyUnicode_FromStringAndSize(leaf->words[n].begin, leaf->words[n].length);
        if (made && n > 1) { /* each source once; of gradients their number */
            PyObject *once = n == 2 ? PyDict_SetDefault(self->sources, made, made)
                                    : PyDict_GetItemWithError(self->gradients, made); /* borrowed */
            if (!once && !PyErr_Occurred()) {
                Py_DECREF(made);
                continue;
            }
            Py_XINCREF(once);
            Py_SETREF(made, once);
        }
        state = keep(self, columns[n], made);
    }
    return state;
}

static int add_leaf(Entries *self, struct leaf *leaf, int part, int path)
{
    int32_t looks;
    int state;
    const struct slice none = {"", 0};
    const unsigned all = ((1u << NUMBERS) - 1) | 1u << DTYPE | 1u << SHAPE;
    if (leaf->seen == 1u << VALUE_OF) {
        state = look(self, leaf->type, none, NULL, -1, &looks);
        if (state == 1)
            state = keep(self, self->values, Py_NewRef(leaf->value));
        return state == 1 ? row(self, part, VALUE, path, looks, NULL) : state;
    }
    if (leaf->seen & 1u << VALUE_OF || (leaf->seen & all) != all)
        return 0;
    state = look(self, leaf->type, leaf->dtype, leaf->shape, leaf->axes, &looks);
    if (state == 1)
        state = keep_words(self, leaf);
    return state == 1 ? row(self, part, TENSOR, path, looks, leaf->numbers) : state;
}

/* The members of an object that has a type; the type's key is passed already. */
static int leaf(Entries *self, int part, int path)
{
    struct leaf found = {.axes = 0};
    struct slice key;
    int state = sign(self, ':') && text(self, &found.type);
    while (state == 1 && sign(self, ','))
        state = text(self, &key) && sign(self, ':') ? member(self, &found, key) : 0;
    if (state == 1)
        state = sign(self, '}') ? add_leaf(self, &found, part, path) : 0;
    Py_XDECREF(found.value);
    return state;
}

static int tree(Entries *self, int part, int path, int depth);

static int list(Entries *self, int part, int path, int depth)
{
    if (!sign(self, '['))
        return 0;
    if (sign(self, ']'))
        return 1;
    int at = 0;
    do {
        char digits[16];
        int inner, state;
        struct slice key = {digits, snprintf(digits, sizeof digits, "%d", at++)};
        if ((state = child(self, path, key, &inner)) < 1 || (state = tree(self, part, inner, depth + 1)) < 1)
            return state;
    } while (sign(self, ','));
    return sign(self, ']');
}

static int object(Entries *self, int part, int path, int depth)
{
    int inner[MOST_MEMBERS], count = 0, state;
    struct slice key;
    if (!sign(self, '{'))
        return 0;
    if (sign(self, '}'))
        return 1;
    do {
        if (!text(self, &key))
            return 0;
        if (is(key, "type"))
            return count ? 0 : leaf(self, part, path);
        if (count == MOST_MEMBERS || !sign(self, ':'))
            return 0;
        if ((state = child(self, path, key, &inner[count])) < 1)
            return state;
        for (int n = 0; n < count; n++)
            if (inner[n] == inner[count])
                return 0; /* of two members with one key the last counts */
        if ((state = tree(self, part, inner[count++], depth + 1)) < 1)
            return state;
    } while (sign(self, ','));
    return sign(self, '}');
}

static int tree(Entries *self, int part, int path, int depth)
{
    const struct slice none = {"", 0};
    int32_t looks;
    int state;
    if (self->at == self->end || depth == DEEPEST)
        return 0;
    switch (*self->at) {
    case '{':
        return object(self, part, path, depth);
    case '[':
        return list(self, part, path, depth);
    case 'n':
        if (!word(self, "null"))
            return 0;
        state = look(self, none, none, NULL, -1, &looks);
        return state == 1 ? row(self, part, NIL, path, looks, NULL) : state;
    default:
        return 0;
    }
}

/* The entry of a call, whose name is passed already. */
static int entry(Entries *self)
{
    static const struct {
        const char *key;
        int part;
    } TREES[] = {{"input_args", INPUT}, {"input_kwargs", INPUT}, {"input", INPUT}, {"parameters", PARAMETERS}, {"output", OUTPUT}};
    enum { COUNT = sizeof TREES / sizeof *TREES };
    struct slice key;
    int last = -1, state;
    if (!sign(self, '{'))
        return 0;
    if (sign(self, '}'))
        return 1;
    do {
        int at = 0;
        if (!text(self, &key) || !sign(self, ':'))
            return 0;
        while (at < COUNT && !is(key, TREES[at].key))
            at++;
        if (at == COUNT || at <= last)
            return 0;
        last = at;
        if (word(self, "null"))
            continue;
        if ((state = tree(self, TREES[at].part, self->root, 0)) < 1)
            return state;
    } while (sign(self, ','));
    return sign(self, '}');
}

/* Whether the name is one of a call whose entry is a part alone. */
static int is_of_one_part(struct slice name)
{
    static const char GRADIENTS[] = ".parameters_grad", DEBUG[] = ".debug";
    const Py_ssize_t length = sizeof GRADIENTS - 1;
    if (name.length >= 6 && memcmp(name.begin + name.length - 6, DEBUG, 6) == 0)
        return 1;
    for (Py_ssize_t n = 0; n + length <= name.length; n++)
        if (name.begin[n] == '.' && memcmp(name.begin + n, GRADIENTS, (size_t)length) == 0)
            return 1;
    return 0;
}

/* The call that follows, with its name: 1 where its rows were added. */
static int call(Entries *self)
{
    struct slice name;
    Py_ssize_t before = self->rows;
    int state = sign(self, ',') && text(self, &name) && sign(self, ':') && !is_of_one_part(name) ? entry(self) : 0;
    if (state == 1 && self->calls == self->most_calls) {
        Py_ssize_t most = self->most_calls ? 2 * self->most_calls : 1024;
        int64_t *starts = PyMem_Realloc(self->starts, (size_t)most * sizeof *starts);
        if (starts) {
            self->starts = starts;
            self->most_calls = most;
        } else {
            PyErr_NoMemory();
            state = -1;
        }
    }
    if (state == 1) {
        PyObject *made = PyUnicode_FromStringAndSize(name.begin, name.length);
        state = made && PyList_Append(self->names, made) == 0 ? 1 : -1;
        Py_XDECREF(made);
    }
    for (Py_ssize_t n = 0; n < self->rares; n++) {
        struct rare *one = &self->rare[n];
        PyObject *place = state == 1 ? PyLong_FromSsize_t(one->row) : NULL;
        if (state == 1 && (!place || PyDict_SetItem(one->column, place, one->value) < 0))
            state = -1;
        Py_XDECREF(place);
        Py_DECREF(one->value);
    }
    self->rares = 0;
    if (state == 1)
        self->starts[self->calls++] = self->base + before;
    else
        self->rows = before;
    return state;
}

PyDoc_STRVAR(scan_doc, "scan($self, text, at, base)\n--\n\n"
                       "Scan the entries that follow the one which ended at a place of a JSON text, as long as they are like most.\n\n"
                       "`base` is how many rows there are already. Returns the place where the last of them ended, the names of\n"
                       "their calls, and bytes: the row with which each call starts; part, kind, path and look of each row, and its\n"
                       "numbers.");

static PyObject *scan(Entries *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyUnicode_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "scan() takes a text, a place and a number");
    Py_ssize_t at = PyLong_AsSsize_t(args[1]), length = PyUnicode_GET_LENGTH(args[0]);
    self->base = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    Py_SETREF(self->names, PyList_New(0));
    if (!self->names)
        return NULL;
    self->calls = self->rows = 0;
    int state = 1;
    if (PyUnicode_IS_ASCII(args[0]) && at >= 0 && at < length) {
        const char *begin = (const char *)PyUnicode_1BYTE_DATA(args[0]);
        self->at = begin + at;
        self->end = begin + length;
        while ((state = call(self)) == 1)
            at = self->at - begin;
        if (state < 0)
            return NULL;
    }
    return Py_BuildValue("nOy#y#y#y#y#y#", at, self->names, self->starts, self->calls * (Py_ssize_t)sizeof *self->starts,
                         self->part, self->rows, self->kind, self->rows, self->path,
                         self->rows * (Py_ssize_t)sizeof *self->path, self->look,
                         self->rows * (Py_ssize_t)sizeof *self->look, self->numbers,
                         self->rows * NUMBERS * (Py_ssize_t)sizeof *self->numbers);
}

static int initialise(Entries *self, PyObject *args, PyObject *Py_UNUSED(keywords))
{
    PyObject *path_number, *look_number, *paths, *digest, *file, *source, *gradient, *values, *gradients, *sources;
    if (!PyArg_ParseTuple(args, "OOO!O!O!O!O!O!O!O!", &path_number, &look_number, &PyList_Type, &paths, &PyDict_Type,
                          &digest, &PyDict_Type, &file, &PyDict_Type, &source, &PyDict_Type, &gradient, &PyDict_Type,
                          &values, &PyDict_Type, &gradients, &PyDict_Type, &sources))
        return -1;
    if (self->names)
        return PyErr_Format(PyExc_RuntimeError, "is made already"), -1;
    self->path_number = Py_NewRef(path_number);
    self->look_number = Py_NewRef(look_number);
    self->paths = Py_NewRef(paths);
    self->digest = Py_NewRef(digest);
    self->file = Py_NewRef(file);
    self->source = Py_NewRef(source);
    self->gradient = Py_NewRef(gradient);
    self->values = Py_NewRef(values);
    self->gradients = Py_NewRef(gradients);
    self->sources = Py_NewRef(sources);
    self->names = PyList_New(0);
    PyObject *empty = PyTuple_New(0);
    PyObject *root = empty ? PyObject_CallOneArg(path_number, empty) : NULL;
    Py_XDECREF(empty);
    self->root = root ? (int)PyLong_AsLong(root) : -1;
    Py_XDECREF(root);
    return self->names && !PyErr_Occurred() ? 0 : -1;
}

static void deallocate(Entries *self)
{
    PyObject *held[] = {self->path_number, self->look_number, self->paths,  self->digest,    self->file,  self->source,
                        self->gradient,    self->values,      self->gradients, self->sources, self->names};
    for (size_t n = 0; n < sizeof held / sizeof *held; n++)
        Py_XDECREF(held[n]);
    clear(&self->paths_known);
    clear(&self->looks_known);
    void *columns[] = {self->starts, self->part, self->kind, self->path, self->look, self->numbers, self->rare};
    for (size_t n = 0; n < sizeof columns / sizeof *columns; n++)
        PyMem_Free(columns[n]);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef entries_methods[] = {{"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc}, {0}};
static PyType_Slot entries_slots[] = {{Py_tp_init, initialise},
                                      {Py_tp_dealloc, deallocate},
                                      {Py_tp_methods, entries_methods},
                                      {Py_tp_new, PyType_GenericNew},
                                      {0, NULL}};
static PyType_Spec entries_spec = {"msprobe.store._entries.Entries", sizeof(Entries), 0, Py_TPFLAGS_DEFAULT,
                                   entries_slots};

static int fill(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&entries_spec);
    if (!type || PyModule_AddObject(module, "Entries", type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "msprobe.store._entries", .m_slots = module_slots};

PyMODINIT_FUNC PyInit__entries(void)
{
    return PyModuleDef_Init(&definition);
}
