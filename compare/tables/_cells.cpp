/* Cells of tables as the bytes of a file, the same bytes that csv_file.py and sheet.py write without this extension.

   csv_lines(columns) -> bytes

   Return lines as UTF-8. A column is a list of cells, or a tuple (values, suffix, others): float64 numbers, the text after
   each of them, and a dict of cells that replace the number at an index. Numbers are the shortest decimal that reads back as the same float, as
   Python's repr writes it; the digits are those of std::to_chars. Any other cell is the text of the object; a text with
   a comma, a quotation mark or a line break is quoted.

   sheet_rows(first, rows, colors, letters, row_styles, verdict, verdict_styles, shares, escape) -> bytes

   Return rows of an xlsx sheet as UTF-8, numbered from `first`. `rows` is a list of tuples, `colors` has an entry for each
   row, and `letters` one for each column; `row_styles` has the styles of cells and of shares by color. The text in the
   column with the index `verdict` has a style of `verdict_styles` if its row has no color. Texts like 12.5% in columns whose
   indices are in `shares` become numbers. `escape(text)` returns the element of a text that must be escaped.

   This extension is kept because spreadsheets take 1.4 times as long without it, and large CSV files 1.25 times, nearly all
   of it for the digits of floats (benchmarks/extensions/RESULTS.md).

   Ownership: parameters are borrowed, objects that are returned are new. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#ifdef __cpp_lib_to_chars
#define HAS_SHORTEST 1
#else
#define HAS_SHORTEST 0 /* the C++ library is older than its standard of 2017 */
#endif

namespace {

/* Enough characters for every float. */
constexpr size_t SHORTEST = 40;

#if HAS_SHORTEST
/* Write a finite float as Python's repr does, in at most SHORTEST characters, and return their end: fixed-point notation for
   decimal exponents from -4 to 15, with at least one digit after the point. */
char *write_shortest(char *to, double number) {
    char text[SHORTEST], digits[SHORTEST];
    const char *end = std::to_chars(text, text + sizeof text, number, std::chars_format::scientific).ptr, *at = text, *e = end;
    if (*at == '-') *to++ = *at++;
    while (*--e != 'e') continue;
    int exponent = 0;
    std::from_chars(e[1] == '+' ? e + 2 : e + 1, end, exponent);
    auto add = [&to](const char *from, size_t count) { std::memcpy(to, from, count), to += count; };
    if (exponent < -4 || exponent >= 16) {
        add(at, end - at);
        return to;
    }
    digits[0] = *at;
    int count = 1;
    if (e > at + 1) { /* digits after the first one and the point */
        std::memcpy(digits + 1, at + 2, e - at - 2);
        count = static_cast<int>(e - at) - 1;
    }
    if (exponent < 0) {
        add("0.0000", 1 - exponent);
        add(digits, count);
    } else if (exponent + 1 >= count) {
        add(digits, count);
        std::memset(to, '0', exponent + 1 - count);
        to += exponent + 1 - count;
        add(".0", 2);
    } else {
        add(digits, exponent + 1);
        *to++ = '.';
        add(digits + exponent + 1, count - exponent - 1);
    }
    return to;
}
#endif

struct Column {
    PyObject *cells = nullptr; /* borrowed from the list of columns, as all objects here */
    Py_buffer numbers{};         /* of float64, if `cells` is null */
    const char *suffix = nullptr;
    Py_ssize_t suffix_size = 0;
    PyObject *others = nullptr;
};

/* Columns, which release their buffers. */
struct Columns : std::vector<Column> {
    ~Columns() {
        for (Column &column : *this)
            if (!column.cells && column.numbers.obj) PyBuffer_Release(&column.numbers);
    }
};

/* Add Python's repr of a float. */
bool add_number(std::string &out, double number) {
    if (!std::isfinite(number)) {
        out += std::isnan(number) ? "nan" : number < 0 ? "-inf" : "inf";
        return true;
    }
#if HAS_SHORTEST
    char text[SHORTEST];
    out.append(text, write_shortest(text, number) - text);
    return true;
#else
    char *text = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, nullptr); /* owned */
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

/* Add a text; characters that UTF-8 cannot encode become question marks. */
bool add_unicode(std::string &out, PyObject *text, bool may_be_quoted) {
    Py_ssize_t size;
    if (const char *known = PyUnicode_AsUTF8AndSize(text, &size)) {
        add_text(out, known, size, may_be_quoted);
        return true;
    }
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "replace"); /* new */
    if (!bytes) return false;
    add_text(out, PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes), may_be_quoted);
    Py_DECREF(bytes);
    return true;
}

bool add_cell(std::string &out, PyObject *cell) {
    if (PyUnicode_CheckExact(cell)) return add_unicode(out, cell, true);
    if (PyFloat_CheckExact(cell)) return add_number(out, PyFloat_AS_DOUBLE(cell));
    PyObject *text = PyObject_Str(cell); /* new */
    if (!text) return false;
    bool done = add_unicode(out, text, false);
    Py_DECREF(text);
    return done;
}

/* Return (borrowed) the cell that replaces a number; null without an exception if there is none. */
PyObject *other_cell(const Column &column, Py_ssize_t at) {
    if (!PyDict_GET_SIZE(column.others)) return nullptr;
    PyObject *key = PyLong_FromSsize_t(at); /* new */
    if (!key) return nullptr;
    PyObject *found = PyDict_GetItemWithError(column.others, key); /* borrowed */
    Py_DECREF(key);
    return found;
}

bool add(std::string &out, const Column &column, Py_ssize_t at) {
    if (column.cells) return add_cell(out, PyList_GET_ITEM(column.cells, at));
    PyObject *other = other_cell(column, at); /* borrowed */
    if (other) return add_cell(out, other);
    if (PyErr_Occurred() || !add_number(out, static_cast<const double *>(column.numbers.buf)[at])) return false;
    out.append(column.suffix, column.suffix_size);
    return true;
}

bool read_column(PyObject *source, Column &column, Py_ssize_t &size) {
    if (PyList_CheckExact(source)) {
        column.cells = source;
        size = PyList_GET_SIZE(source);
        return true;
    }
    if (!PyTuple_CheckExact(source)) {
        PyErr_SetString(PyExc_TypeError, "a column must be a list or a tuple");
        return false;
    }
    PyObject *values; /* borrowed */
    if (!PyArg_ParseTuple(source, "Os#O!", &values, &column.suffix, &column.suffix_size, &PyDict_Type, &column.others))
        return false;
    if (PyObject_GetBuffer(values, &column.numbers, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) return false;
    if (column.numbers.itemsize != 8 || strcmp(column.numbers.format, "d")) {
        PyErr_SetString(PyExc_TypeError, "the numbers of a column must be float64");
        return false;
    }
    size = column.numbers.len / 8;
    return true;
}

PyObject *csv_lines(PyObject *, PyObject *sources) {
    PyObject *every = PySequence_Fast(sources, "columns must be a sequence"); /* new */
    if (!every) return nullptr;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(every), rows = -1;
    PyObject *result = nullptr; /* new */
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

/* Read a text like 12.5% as a share of 1: digits, a point, an exponent. */
bool read_share(const char *text, Py_ssize_t size, double &share) {
    if (size < 2 || text[size - 1] != '%') return false;
    Py_ssize_t at = 0;
    auto digits = [&] {
        Py_ssize_t from = at;
        while (at < size && text[at] >= '0' && text[at] <= '9') at++;
        return at > from;
    };
    if (!digits()) return false;
    if (text[at] == '.') {
        at++;
        digits();
    }
    if (text[at] == 'e') {
        at++;
        if (text[at] == '+' || text[at] == '-') at++;
        if (!digits()) return false;
    }
    if (at != size - 1) return false;
    std::string number(text, size - 1);
    share = PyOS_string_to_double(number.c_str(), nullptr, nullptr);
    if (PyErr_Occurred()) return false;
    share /= 100;
    return std::isfinite(share);
}

bool needs_escape(const char *text, Py_ssize_t size) {
    if (text[0] == ' ' || text[size - 1] == ' ') return true;
    for (Py_ssize_t at = 0; at < size; at++) {
        char c = text[at];
        if (c == '&' || c == '<' || c == '>' || c == '\r' || c == '\n' || c == '\t') return true;
        if (c == '_' && at + 1 < size && text[at + 1] == 'x') return true;
    }
    return false;
}

struct Sheet {
    PyObject *row_styles, *verdict_styles, *shares, *escape; /* borrowed */
    Py_ssize_t verdict;
    std::vector<std::string> letters;
    std::vector<bool> are_shares;
};

void begin_cell(std::string &out, const Sheet &sheet, Py_ssize_t column, const std::string &number, const char *style) {
    out += "<c r=\"";
    out += sheet.letters[column];
    out += number;
    out += '"';
    out += style;
}

bool add_element(std::string &out, const Sheet &sheet, PyObject *cell, const char *text, Py_ssize_t size) {
    if (text && !needs_escape(text, size)) {
        out += "<t>";
        out.append(text, size);
        out += "</t>";
        return true;
    }
    PyObject *element = PyObject_CallOneArg(sheet.escape, cell); /* new */
    bool done = element && add_unicode(out, element, false);
    Py_XDECREF(element);
    return done;
}

bool add_sheet_text(std::string &out, const Sheet &sheet, Py_ssize_t column, const std::string &number, PyObject *cell,
                    PyObject *color, const char *style, const char *in_percent) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(cell, &size);
    if (!text) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return false;
        PyErr_Clear();
    }
    double share;
    if (text && sheet.are_shares[column] && read_share(text, size, share)) {
        begin_cell(out, sheet, column, number, in_percent);
        out += "><v>";
        if (!add_number(out, share)) return false;
        out += "</v></c>";
        return true;
    }
    if (PyErr_Occurred()) return false;
    if (text && !size) {
        if (color == Py_None) return true;
        begin_cell(out, sheet, column, number, style);
        out += "/>";
        return true;
    }
    if (column == sheet.verdict && color == Py_None) {
        PyObject *found = PyDict_GetItemWithError(sheet.verdict_styles, cell); /* borrowed */
        if (!found && PyErr_Occurred()) return false;
        style = found ? PyUnicode_AsUTF8(found) : "";
        if (!style) return false;
    }
    begin_cell(out, sheet, column, number, style);
    out += " t=\"inlineStr\"><is>";
    if (!add_element(out, sheet, cell, text, size)) return false;
    out += "</is></c>";
    return true;
}

bool add_sheet_row(std::string &out, const Sheet &sheet, Py_ssize_t at, PyObject *row, PyObject *color) {
    PyObject *styles = PyDict_GetItemWithError(sheet.row_styles, color); /* borrowed */
    const char *style, *in_percent;
    if (!styles) {
        if (!PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, color);
        return false;
    }
    if (!PyArg_ParseTuple(styles, "ss", &style, &in_percent)) return false;
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != static_cast<Py_ssize_t>(sheet.letters.size())) {
        PyErr_SetString(PyExc_ValueError, "a row must be a tuple with a cell for each letter");
        return false;
    }
    std::string number = std::to_string(at);
    out += "<row r=\"" + number + "\">";
    for (Py_ssize_t column = 0; column < PyTuple_GET_SIZE(row); column++) {
        PyObject *cell = PyTuple_GET_ITEM(row, column); /* borrowed */
        if (PyUnicode_CheckExact(cell)) {
            if (!add_sheet_text(out, sheet, column, number, cell, color, style, in_percent)) return false;
            continue;
        }
        begin_cell(out, sheet, column, number, style);
        if (PyBool_Check(cell)) {
            out += cell == Py_True ? " t=\"b\"><v>1" : " t=\"b\"><v>0";
        } else {
            out += "><v>";
            PyObject *text = PyFloat_CheckExact(cell) ? nullptr : PyObject_Repr(cell); /* new */
            bool done = text ? add_unicode(out, text, false)
                             : PyFloat_CheckExact(cell) && add_number(out, PyFloat_AS_DOUBLE(cell));
            Py_XDECREF(text);
            if (!done) return false;
        }
        out += "</v></c>";
    }
    out += "</row>";
    return true;
}

PyObject *sheet_rows(PyObject *, PyObject *args) {
    Sheet sheet;
    Py_ssize_t first;
    PyObject *rows, *colors, *letters; /* borrowed */
    if (!PyArg_ParseTuple(args, "nO!O!O!O!nO!OO", &first, &PyList_Type, &rows, &PyList_Type, &colors, &PyList_Type,
                          &letters, &PyDict_Type, &sheet.row_styles, &sheet.verdict, &PyDict_Type,
                          &sheet.verdict_styles, &sheet.shares, &sheet.escape))
        return nullptr;
    if (PyList_GET_SIZE(rows) != PyList_GET_SIZE(colors)) {
        PyErr_SetString(PyExc_ValueError, "a color is needed for each row");
        return nullptr;
    }
    try {
        std::string out;
        for (Py_ssize_t column = 0; column < PyList_GET_SIZE(letters); column++) {
            const char *letter = PyUnicode_AsUTF8(PyList_GET_ITEM(letters, column));
            PyObject *place = letter ? PyLong_FromSsize_t(column) : nullptr; /* new */
            int is_share = place ? PySet_Contains(sheet.shares, place) : -1;
            Py_XDECREF(place);
            if (is_share < 0) return nullptr;
            sheet.letters.emplace_back(letter);
            sheet.are_shares.push_back(is_share);
        }
        for (Py_ssize_t at = 0; at < PyList_GET_SIZE(rows); at++)
            if (!add_sheet_row(out, sheet, first + at, PyList_GET_ITEM(rows, at), PyList_GET_ITEM(colors, at)))
                return nullptr;
        return PyBytes_FromStringAndSize(out.data(), out.size());
    } catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
}

PyMethodDef methods[] = {{"csv_lines", csv_lines, METH_O, "Return the lines of columns as UTF-8."},
                         {"sheet_rows", sheet_rows, METH_VARARGS, "Return rows of an xlsx sheet as UTF-8."},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_cells", "Cells of tables as bytes.", -1, methods,
                      nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__cells() { return PyModule_Create(&module); }
