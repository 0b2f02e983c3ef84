/* Lines of a csv file from columns: what csv_file.py makes without this, byte for byte.

   lines(columns) -> bytes

   A column is a list of cells, or a tuple (values, suffix, others): float64 numbers, the text behind each of them, and
   by place the cells that stand instead of some. Numbers are the shortest decimal that reads back as the same float, as
   Python's repr writes it; the digits are those of std::to_chars. Any other cell is the text of the object; a text with
   a comma, a quotation mark or a line break is quoted. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Column {
    PyObject *cells = nullptr;   /* borrowed from the list of columns, as all objects here */
    Py_buffer numbers{};         /* of float64, if `cells` is null */
    const char *suffix = nullptr;
    Py_ssize_t suffix_size = 0;
    PyObject *others = nullptr;
};

/* The buffers of columns, given back in the end. */
struct Columns : std::vector<Column> {
    ~Columns() {
        for (Column &column : *this)
            if (!column.cells && column.numbers.obj) PyBuffer_Release(&column.numbers);
    }
};

/* Python's repr of a float: fixed for decimal exponents from -4 to 15, and with at least one digit behind the point. */
bool add_number(std::string &out, double number) {
    if (!std::isfinite(number)) {
        out += std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf";
        return true;
    }
#ifdef __cpp_lib_to_chars
    char text[40];
    auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr;
    const char *at = text;
    if (*at == '-') out += *at++;
    const char *e = end;
    while (*--e != 'e') continue;
    int exponent = 0;
    std::from_chars(e[1] == '+' ? e + 2 : e + 1, end, exponent);
    if (exponent < -4 || exponent >= 16) {
        out.append(at, end - at);
        return true;
    }
    char digits[24];
    int count = 0;
    for (const char *p = at; p < e; p++)
        if (*p != '.') digits[count++] = *p;
    if (exponent < 0) {
        out += "0.";
        out.append(-exponent - 1, '0');
        out.append(digits, count);
    } else if (exponent + 1 >= count) {
        out.append(digits, count);
        out.append(exponent + 1 - count, '0');
        out += ".0";
    } else {
        out.append(digits, exponent + 1);
        out += '.';
        out.append(digits + exponent + 1, count - exponent - 1);
    }
    return true;
#else
    char *text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr);
    if (!text) return false;
    out += text;
    PyMem_Free(text);
    return true;
#endif
}

void add_text(std::string &out, const char *text, Py_ssize_t size, bool may_be_quoted) {
    bool is_special = false;
    if (may_be_quoted)
        for (Py_ssize_t at = 0; at < size; at++)
            is_special |= text[at] == '"' || text[at] == ',' || text[at] == '\r' || text[at] == '\n';
    if (!is_special) {
        out.append(text, size);
        return;
    }
    out += '"';
    for (Py_ssize_t at = 0; at < size; at++) {
        if (text[at] == '"') out += '"';
        out += text[at];
    }
    out += '"';
}

/* What UTF-8 cannot hold becomes a question mark. */
bool add_unicode(std::string &out, PyObject *text, bool may_be_quoted) {
    Py_ssize_t size;
    if (const char *known = PyUnicode_AsUTF8AndSize(text, &size)) {
        add_text(out, known, size, may_be_quoted);
        return true;
    }
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace");
    if (!bytes) return false;
    add_text(out, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), may_be_quoted);
    Py_DECREF(bytes);
    return true;
}

bool add_cell(std::string &out, PyObject *cell) {
    if (PyUnicode_CheckExact(cell)) return add_unicode(out, cell, true);
    if (PyFloat_CheckExact(cell)) return add_number(out, PyFloat_AS_DOUBLE(cell));
    PyObject *text = PyObject_Str(cell);
    if (!text) return false;
    bool done = add_unicode(out, text, false);
    Py_DECREF(text);
    return done;
}

/* The cell that stands instead of a number; null without an error where there is none. */
PyObject *other_cell(const Column &column, Py_ssize_t at) {
    if (!PyDict_GET_SIZE(column.others)) return nullptr;
    PyObject *key = PyLong_FromSsize_t(at);
    if (!key) return nullptr;
    PyObject *found = PyDict_GetItemWithError(column.others, key);
    Py_DECREF(key);
    return found;
}

bool add(std::string &out, const Column &column, Py_ssize_t at) {
    if (column.cells) return add_cell(out, PyList_GET_ITEM(column.cells, at));
    PyObject *other = other_cell(column, at);
    if (other) return add_cell(out, other);
    if (PyErr_Occurred() || !add_number(out, static_cast<const double *>(column.numbers.buf)[at])) return false;
    out.append(column.suffix, column.suffix_size);
    return true;
}

bool read_column(PyObject *given, Column &column, Py_ssize_t &size) {
    if (PyList_CheckExact(given)) {
        column.cells = given;
        size = PyList_GET_SIZE(given);
        return true;
    }
    if (!PyTuple_CheckExact(given)) {
        PyErr_SetString(PyExc_TypeError, "a column must be a list or a tuple");
        return false;
    }
    PyObject *values;
    if (!PyArg_ParseTuple(given, "Os#O!", &values, &column.suffix, &column.suffix_size, &PyDict_Type, &column.others))
        return false;
    if (PyObject_GetBuffer(values, &column.numbers, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) return false;
    if (column.numbers.itemsize != 8 || strcmp(column.numbers.format, "d")) {
        PyErr_SetString(PyExc_TypeError, "the numbers of a column must be float64");
        return false;
    }
    size = column.numbers.len / 8;
    return true;
}

PyObject *lines(PyObject *, PyObject *given) {
    PyObject *every = PySequence_Fast(given, "columns must be a sequence");
    if (!every) return nullptr;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(every), rows = -1;
    PyObject *result = nullptr;
    try {
        Columns columns;
        columns.reserve(count);
        std::string out;
        for (Py_ssize_t n = 0; n < count; n++) {
            columns.emplace_back();
            Py_ssize_t size = 0;
            if (!read_column(PySequence_Fast_GET_ITEM(every, n), columns.back(), size)) goto end;
            if (rows >= 0 && size != rows) {
                PyErr_SetString(PyExc_ValueError, "columns must be of one length");
                goto end;
            }
            rows = size;
        }
        for (Py_ssize_t at = 0; at < rows; at++) {
            for (Py_ssize_t n = 0; n < count; n++) {
                if (n) out += ',';
                if (!add(out, columns[n], at)) goto end;
            }
            out += "\r\n";
        }
        result = PyBytes_FromStringAndSize(out.data(), out.size());
    end:;
    } catch (const std::bad_alloc &) {
        PyErr_NoMemory();
    }
    Py_DECREF(every);
    return result;
}

PyMethodDef methods[] = {{"lines", lines, METH_O, "The lines of columns, as UTF-8."}, {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_lines", "Lines of csv from columns.", -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__lines() { return PyModule_Create(&module); }
