/* Scan typical entries of a dump.json into columns, without creating an object for each; see flatten.py.
 *
 * Scanning stops before the first unusual entry: one with an escape in a string, a number that is not finite or an integer
 * where a float is expected, a member of another type, or parts in another order. Nothing of such an entry is added; Python
 * reads it, and handles all cases.
 *
 * This extension is kept because without it reading takes several times as long, and a command on 200,000 rows 1.5 times as
 * long (benchmarks/extensions/RESULTS.md).
 *
 * Ownership: parameters are borrowed unless they are marked as new; then the function takes the reference. Objects that are
 * returned are new. A function that returns `state` returns 1 if it succeeded, 0 if it met something unusual, and -1 with an
 * exception. A *look* is the combination of type, dtype and shape of a tensor; see `Columns.look`.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "_schema.h"

enum { MAX_DEPTH = 32, MAX_MEMBERS = 256, MAX_AXES = 32 };
enum { TENSOR, VALUE, NIL }; /* indices of KINDS in record.py */
enum { INPUT, PARAMETERS, OUTPUT }; /* indices of PARTS */

/* A part of the scanned text. */
struct slice {
    const char *begin; /* borrowed */
    Py_ssize_t length;
};

/* A hash table from bytes to numbers, for paths and looks. */
struct known {
    char *key; /* owned; NULL where the slot is free */
    size_t length;
    int32_t number;
};

struct table {
    struct known *slots; /* owned */
    size_t size, used; /* size is a power of two */
};

/* A value that few rows have, kept until the whole entry is scanned. */
struct rare {
    PyObject *column; /* borrowed: a dict by row */
    Py_ssize_t row;
    PyObject *value; /* new */
};

typedef struct {
    PyObject_HEAD
    PyObject *path_number, *look_number, *paths;          /* new */
    PyObject *digest, *file, *source, *gradient, *values; /* new: dicts by row */
    PyObject *gradients, *sources;                        /* new: numbers of kinds of gradients by name; interned sources */
    PyObject *names;                                      /* new: of the calls of this scan */
    struct table paths_known, looks_known;
    int64_t *starts; /* owned, as the columns below */
    unsigned char *part, *kind;
    int32_t *path, *look;
    double *numbers; /* row after row */
    Py_ssize_t calls, rows, call_capacity, row_capacity;
    struct rare *rare;
    Py_ssize_t rares, rare_capacity;
    Py_ssize_t base; /* number of rows before this scan */
    const char *at, *end; /* borrowed: the text, while it is scanned */
    int root;
} Entries;

static uint64_t hash(const char *key, size_t length)
{
    uint64_t found = 14695981039346656037ULL;
    for (size_t n = 0; n < length; n++)
        found = (found ^ (unsigned char)key[n]) * 1099511628211ULL;
    return found ^ (found >> 29);
}

/* Return (borrowed) the slot of a key, which is free if the key is not in the table; NULL with an exception. */
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

/* Fill a free slot with a number returned by Python; return 1, or -1 with an exception. */
static int enter(struct table *table, struct known *slot, const char *key, size_t length, PyObject *made /* new, or NULL */)
{
    int state = -1;
    long number = made ? PyLong_AsLong(made) : -1;
    if (PyErr_Occurred())
        goto done;
    char *copy = PyMem_Malloc(length + 1); /* owned by the slot */
    if (!copy) {
        PyErr_NoMemory();
        goto done;
    }
    memcpy(copy, key, length);
    slot->key = copy;
    slot->length = length;
    slot->number = (int32_t)number;
    table->used++;
    state = 1;
done:
    Py_XDECREF(made);
    return state;
}

static void clear(struct table *table)
{
    for (size_t n = 0; n < table->size; n++)
        PyMem_Free(table->slots[n].key);
    PyMem_Free(table->slots);
}

/* Look up the number of the path that consists of another path and `key`. */
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
        PyObject *last = Py_BuildValue("(s#)", key.begin, key.length);                   /* new */
        PyObject *before = PyList_GetItem(self->paths, path);                            /* borrowed */
        PyObject *whole = last && before ? PySequence_Concat(before, last) : NULL;       /* new */
        PyObject *made = whole ? PyObject_CallOneArg(self->path_number, whole) : NULL; /* new */
        Py_XDECREF(last);
        Py_XDECREF(whole);
        if (enter(&self->paths_known, slot, text, length, made) < 0)
            return -1;
    }
    *number = slot->number;
    return 1;
}

/* Return (new) a shape as a tuple; None if there is no shape (-1 axes). */
static PyObject *lengths_of(const int64_t *shape, int axes)
{
    PyObject *lengths = axes < 0 ? Py_NewRef(Py_None) : PyTuple_New(axes); /* new */
    for (int n = 0; lengths && n < axes; n++) {
        PyObject *one = PyLong_FromLongLong(shape[n]); /* new */
        if (one)
            PyTuple_SET_ITEM(lengths, n, one);
        else
            Py_CLEAR(lengths);
    }
    return lengths;
}

/* Look up the number of a look. `axes` is -1 if there is no shape. */
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
        PyObject *lengths = lengths_of(shape, axes); /* new */
        PyObject *made = NULL;                       /* new */
        if (lengths)
            made = PyObject_CallFunction(self->look_number, "s#s#O", type.begin, type.length, dtype.begin, dtype.length, lengths);
        Py_XDECREF(lengths);
        if (enter(&self->looks_known, slot, text, length, made) < 0)
            return -1;
    }
    *number = slot->number;
    return 1;
}

static void skip_space(Entries *self)
{
    while (self->at < self->end && (*self->at == ' ' || *self->at == '\n' || *self->at == '\t' || *self->at == '\r'))
        self->at++;
}

/* If a character follows, skip it and the spaces around it; return whether it follows. */
static int sign(Entries *self, char wanted)
{
    skip_space(self);
    if (self->at == self->end || *self->at != wanted)
        return 0;
    self->at++;
    skip_space(self);
    return 1;
}

/* Read a string without escapes; return 0 for any other. */
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

/* Return whether a slice is a word. */
static int is(struct slice found, const char *word)
{
    return (size_t)found.length == strlen(word) && memcmp(found.begin, word, (size_t)found.length) == 0;
}

/* If a word follows, skip it; return whether it follows. */
static int word(Entries *self, const char *wanted)
{
    Py_ssize_t length = (Py_ssize_t)strlen(wanted);
    if (self->end - self->at <= length || memcmp(self->at, wanted, (size_t)length) != 0)
        return 0;
    self->at += length;
    return 1;
}

/* Compute `digits` times a power of ten, correctly rounded; return 0 if that is not certain.
 *
 * Digits and powers up to 10^27 are exact in a long double with 64 bits, so the product has one rounding error of at most
 * half a unit. Unless the product is next to the midpoint of two doubles, rounding it to double is correct. */
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

/* Read a number in JSON: return 1 and set *found for a float; return 2 and set *whole for an integer, which has neither fraction
 * nor exponent; return 0 for any other. `whole` is NULL if an integer is unusual. */
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
    if (at == end) /* it may continue */
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

static PyObject *plain(Entries *self, int depth);

/* Read a list of plain values, new; NULL without an exception if it is unusual. */
static PyObject *plain_list(Entries *self, int depth)
{
    PyObject *list = PyList_New(0); /* new */
    if (!list || !sign(self, '[') || sign(self, ']'))
        goto done;
    do {
        PyObject *one = plain(self, depth + 1); /* new */
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    } while (list && sign(self, ','));
    if (list && !sign(self, ']'))
        Py_CLEAR(list);
done:
    return list;
}

/* Read a value that is not a tensor, new: a scalar, or a list of such values. NULL without an exception if it is unusual. */
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
        return plain_list(self, depth);
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
}

/* Reallocate an array, which is owned, to `capacity` elements: 1; or 0 with an exception, then the array is unchanged. */
#define WIDEN(array, capacity)                                                                                             \
    ((wider = PyMem_Realloc(array, (capacity) * sizeof *(array))) ? ((array) = wider, 1) : (PyErr_NoMemory(), 0))

/* Make room for another row; return 1, or -1 with an exception. */
static int grow(Entries *self)
{
    if (self->rows < self->row_capacity)
        return 1;
    size_t capacity = self->row_capacity ? 2 * (size_t)self->row_capacity : 4096;
    void *wider;
    if (!WIDEN(self->part, capacity) || !WIDEN(self->kind, capacity) || !WIDEN(self->path, capacity) || !WIDEN(self->look, capacity)
        || !WIDEN(self->numbers, capacity * NUMBERS))
        return -1;
    self->row_capacity = (Py_ssize_t)capacity;
    return 1;
}

/* Add a row. */
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

/* Keep a value of the next row for a column that few rows have. */
static int keep(Entries *self, PyObject *column, PyObject *value /* new, or NULL with an error */)
{
    if (!value)
        return -1;
    if (self->rares == self->rare_capacity) {
        size_t capacity = self->rare_capacity ? 2 * (size_t)self->rare_capacity : 64;
        void *wider;
        if (!WIDEN(self->rare, capacity)) {
            Py_DECREF(value);
            return -1;
        }
        self->rare_capacity = (Py_ssize_t)capacity;
    }
    self->rare[self->rares++] = (struct rare){column, self->base + self->rows, value};
    return 1;
}

/* The content of a leaf. `seen` has a bit for each known member that was read. */
struct leaf {
    struct slice type, dtype, words[4];
    int64_t shape[MAX_AXES];
    int axes;
    double numbers[NUMBERS];
    PyObject *value; /* new, or NULL */
    unsigned seen;
};

enum { DTYPE = NUMBERS, SHAPE, VALUE_OF, WORDS }; /* bits of `seen`: first the numbers, last the four words */

static const char *const KEYS[] = NUMBER_KEYS;
static const char *const WORDS_OF[] = {DIGEST_NAME, "data_name", "from", "gradient"};

/* Read a shape. */
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
        if (leaf->axes == MAX_AXES || number(self, &unused, &length) != 2 || length < 0)
            return 0;
        leaf->shape[leaf->axes++] = length;
        elements *= (double)(length ? length : 1);
    } while (sign(self, ','));
    return sign(self, ']') && elements < 9e18;
}

/* Read the value of a member of a leaf. */
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
    if (bit < 0) { /* not read here */
        static const char *const OPTIONAL[] = OPTIONAL_KEYS;
        for (size_t n = 0; n < sizeof OPTIONAL / sizeof *OPTIONAL; n++)
            if (is(key, OPTIONAL[n]))
                return 0;
        PyObject *unread = plain(self, 0); /* new */
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

/* Return (new) the value of a word in its column: an interned source, the number of a kind of gradient, or the text. NULL
 * without an exception for an unknown kind of gradient, which is ignored. */
static PyObject *kept_word(Entries *self, int which, struct slice word)
{
    enum { FROM = 2, GRADIENT };
    PyObject *made = PyUnicode_FromStringAndSize(word.begin, word.length); /* new */
    PyObject *value = made;                                                /* borrowed */
    if (made && which == FROM)
        value = PyDict_SetDefault(self->sources, made, made);
    if (made && which == GRADIENT)
        value = PyDict_GetItemWithError(self->gradients, made);
    PyObject *kept = Py_XNewRef(value); /* new */
    Py_XDECREF(made);
    return kept;
}

/* Keep the words of a leaf for its row. */
static int keep_words(Entries *self, struct leaf *leaf)
{
    PyObject *columns[] = {self->digest, self->file, self->source, self->gradient}; /* borrowed */
    for (int n = 0; n < 4; n++) {
        if (!(leaf->seen & 1u << (WORDS + n)))
            continue;
        PyObject *kept = kept_word(self, n, leaf->words[n]); /* new */
        if (!kept && !PyErr_Occurred())
            continue;
        if (keep(self, columns[n], kept) < 0)
            return -1;
    }
    return 1;
}

/* Add the row of a leaf. */
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

/* Read an object that has a type, after the key "type". */
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

/* Read a list of trees. */
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

/* Read an object: a leaf, or one of trees. */
static int object(Entries *self, int part, int path, int depth)
{
    int inner[MAX_MEMBERS], count = 0, state;
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
        if (count == MAX_MEMBERS || !sign(self, ':'))
            return 0;
        if ((state = child(self, path, key, &inner[count])) < 1)
            return state;
        for (int n = 0; n < count; n++)
            if (inner[n] == inner[count])
                return 0; /* a duplicate key: the last one counts */
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
    if (self->at == self->end || depth == MAX_DEPTH)
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

/* Read the entry of a call, after its name. */
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

/* Return whether the entry of a call with this name is not divided into parts. */
static int has_no_parts(struct slice name)
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

/* Move the values kept for the rows of an entry into their columns, or drop them. */
static int settle(Entries *self, int drops)
{
    int state = 1;
    for (Py_ssize_t n = 0; n < self->rares; n++) {
        struct rare *one = &self->rare[n];
        if (!drops && state == 1) {
            PyObject *place = PyLong_FromSsize_t(one->row); /* new */
            if (!place || PyDict_SetItem(one->column, place, one->value) < 0)
                state = -1;
            Py_XDECREF(place);
        }
        Py_DECREF(one->value);
    }
    self->rares = 0;
    return state;
}

/* Add a call whose rows were added. */
static int enter_call(Entries *self, struct slice name)
{
    if (self->calls == self->call_capacity) {
        size_t capacity = self->call_capacity ? 2 * (size_t)self->call_capacity : 1024;
        void *wider;
        if (!WIDEN(self->starts, capacity))
            return -1;
        self->call_capacity = (Py_ssize_t)capacity;
    }
    PyObject *made = PyUnicode_FromStringAndSize(name.begin, name.length); /* new */
    int state = made && PyList_Append(self->names, made) == 0 ? 1 : -1;
    Py_XDECREF(made);
    return state;
}

/* Read the next call with its name; nothing is added unless 1 is returned. */
static int call(Entries *self)
{
    struct slice name;
    Py_ssize_t before = self->rows;
    int state = sign(self, ',') && text(self, &name) && sign(self, ':') && !has_no_parts(name) ? entry(self) : 0;
    if (state == 1)
        state = enter_call(self, name);
    if (settle(self, state != 1) < 0)
        state = -1;
    if (state == 1)
        self->starts[self->calls++] = self->base + before;
    else
        self->rows = before;
    return state;
}

PyDoc_STRVAR(scan_doc, "scan($self, text, at, base)\n--\n\n"
                       "Scan the entries after index `at` of a JSON text, where an entry ended, up to the first unusual one.\n\n"
                       "`base` is the number of rows so far. Return the index where the last scanned entry ended, the names of\n"
                       "the calls, and bytes: the first row of each call; part, kind, path and look of each row, and its numbers.");

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
    PyObject *path_number, *look_number, *paths, *digest, *file, *source, *gradient, *values, *gradients, *sources; /* borrowed */
    if (!PyArg_ParseTuple(args, "OOO!O!O!O!O!O!O!O!", &path_number, &look_number, &PyList_Type, &paths, &PyDict_Type,
                          &digest, &PyDict_Type, &file, &PyDict_Type, &source, &PyDict_Type, &gradient, &PyDict_Type,
                          &values, &PyDict_Type, &gradients, &PyDict_Type, &sources))
        return -1;
    if (self->names)
        return PyErr_Format(PyExc_RuntimeError, "__init__() was already called"), -1;
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
    PyObject *empty = PyTuple_New(0);                                          /* new */
    PyObject *root = empty ? PyObject_CallOneArg(path_number, empty) : NULL; /* new */
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
    PyObject *type = PyType_FromSpec(&entries_spec); /* new */
    int failed = !type || PyModule_AddObjectRef(module, "Entries", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "msprobe.store._entries", .m_slots = module_slots};

PyMODINIT_FUNC PyInit__entries(void)
{
    return PyModuleDef_Init(&definition);
}
