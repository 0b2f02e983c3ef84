/* Statistics of a tensor in one pass over its data: the interface to Python.
 *
 * The passes are in `_passes.c`, CRC-32C in `_digest.c`, the statistics of the monitor in `_brief.c`, and records of tensors
 * in `_record.c`. Arrays are read through NumPy's documented `__array_struct__`, independent of NumPy's headers and version.
 *
 * Ownership: parameters are borrowed, and objects that are returned are new.
 */

#include "_statistic.h"

#include <math.h>
#include <string.h>

PyObject *array_struct_name; /* new, never released */

enum { C_ORDER = 0x1, FORTRAN_ORDER = 0x2, ALIGNED = 0x100, NATIVE = 0x200 };

size_t plain_size(const struct array *a)
{
    size_t n = 1;
    if (!(a->flags & (C_ORDER | FORTRAN_ORDER)) || !(a->flags & ALIGNED) || !(a->flags & NATIVE))
        return 0;
    for (int i = 0; i < a->nd; i++)
        n *= (size_t)a->shape[i];
    return n;
}

int letter_of_two_bytes(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");                /* new */
    PyObject *type = dtype ? PyObject_GetAttrString(dtype, "type") : NULL; /* new */
    int letter = 0;
    if (type && PyType_Check(type)) {
        const char *name = ((PyTypeObject *)type)->tp_name, *dot = strrchr(name, '.');
        name = dot ? dot + 1 : name;
        letter = strcmp(name, "float16") == 0 ? 'e' : strcmp(name, "bfloat16") == 0 ? 'E' : 0;
    }
    Py_XDECREF(dtype);
    Py_XDECREF(type);
    PyErr_Clear(); /* an object with this interface may have no dtype */
    return letter;
}

static floats_pass pass_for_two_bytes(PyObject *array)
{
    int letter = letter_of_two_bytes(array);
    return letter == 'e' ? active_passes->float16 : letter == 'E' ? active_passes->bfloat16 : NULL;
}

static floats_pass pass_for(const struct array *a, PyObject *array)
{
    if (a->kind == 'f' || a->kind == 'V')
        return a->itemsize == 2   ? pass_for_two_bytes(array)
               : a->kind == 'V'   ? NULL
               : a->itemsize == 4 ? active_passes->float32
               : a->itemsize == 8 ? active_passes->float64
                                  : NULL;
    if (a->kind == 'i')
        return a->itemsize == 4   ? active_passes->int32
               : a->itemsize == 2 ? active_passes->int16
               : a->itemsize == 1 ? active_passes->int8
                                  : NULL;
    if (a->kind == 'u')
        return a->itemsize == 4   ? active_passes->uint32
               : a->itemsize == 2 ? active_passes->uint16
               : a->itemsize == 1 ? active_passes->uint8
                                  : NULL;
    return NULL;
}

static at_least_pass at_least_pass_for(const struct array *a, PyObject *array)
{
    int letter = 0;
    switch (a->kind << 8 | a->itemsize) {
    case 'f' << 8 | 2:
    case 'V' << 8 | 2:
        letter = letter_of_two_bytes(array);
        return letter == 'e' ? active_passes->at_least.float16 : letter == 'E' ? active_passes->at_least.bfloat16 : NULL;
    case 'f' << 8 | 4: return active_passes->at_least.float32;
    case 'f' << 8 | 8: return active_passes->at_least.float64;
    case 'i' << 8 | 1: return active_passes->at_least.int8;
    case 'i' << 8 | 2: return active_passes->at_least.int16;
    case 'i' << 8 | 4: return active_passes->at_least.int32;
    case 'i' << 8 | 8: return active_passes->at_least.int64;
    case 'u' << 8 | 1: return active_passes->at_least.uint8;
    case 'u' << 8 | 2: return active_passes->at_least.uint16;
    case 'u' << 8 | 4: return active_passes->at_least.uint32;
    case 'u' << 8 | 8: return active_passes->at_least.uint64;
    default: return NULL;
    }
}

PyThreadState *release_gil(const struct array *a, size_t n)
{
    return n * (size_t)a->itemsize >= 1 << 16 ? PyEval_SaveThread() : NULL;
}

void take_gil(PyThreadState *thread)
{
    if (thread)
        PyEval_RestoreThread(thread);
}

int64_t count_true(const uint8_t *p, size_t n)
{
    int64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += p[i] != 0;
    return total;
}

static PyObject *of_bools(const uint8_t *p, size_t n)
{
    int64_t count = count_true(p, n);
    return Py_BuildValue("NNOOiiiL", PyBool_FromLong(count > 0), PyBool_FromLong((size_t)count == n), Py_None, Py_None, 0,
                         0, 0, (long long)count);
}

static PyObject *of_int64s(const struct array *a, size_t n)
{
    struct int64s all = {.max = INT64_MIN, .min = INT64_MAX};
    PyThreadState *thread = release_gil(a, n);
    active_passes->int64(a->data, n, &all);
    take_gil(thread);
    return Py_BuildValue("LLddiii", (long long)all.max, (long long)all.min, (double)all.sum / (double)n,
                         sqrt(all.squares + all.squares_low), 0, 0, 0);
}

int summarize(const struct array *a, size_t n, floats_pass pass, struct summary *found, struct digest *digest)
{
    struct floats all = {.max = -INFINITY, .min = INFINITY, .digest = *digest};
    PyThreadState *thread = release_gil(a, n);
    pass(a->data, n, &all);
    double peak = fmax(all.max, -all.min), norm = sqrt(all.squares + all.squares_low);
    int finite = !all.nan && !all.positive_inf && !all.negative_inf, is_float = a->kind != 'i' && a->kind != 'u';
    if (is_float && finite && peak != 0 && !(peak > 0x1p-450 && peak < 0x1p480)) /* only float64 gets there */
        norm = scaled_norm(a->data, n, peak);
    take_gil(thread);

    double sum = all.sum + all.sum_low, mean = sum / (double)n;
    all.max += 0.0, all.min += 0.0; /* converts -0.0 to 0.0 */
    if (all.nan)
        all.max = all.min = mean = norm = NAN;
    else if (!finite)
        mean = all.positive_inf && all.negative_inf ? NAN : all.positive_inf ? INFINITY : -INFINITY, norm = INFINITY;
    *digest = all.digest;
    *found = (struct summary){all.max, all.min, mean, norm, all.nan, all.positive_inf, all.negative_inf};
    return !is_float || !finite || all.slack <= 0x1p-42 * fabs(sum);
}

static PyObject *of_floats(const struct array *a, size_t n, floats_pass pass, PyObject *array, PyObject *exact_mean)
{
    struct summary s;
    struct digest none = {.is_wanted = 0};
    int certain = summarize(a, n, pass, &s, &none);
    if (a->kind == 'i' || a->kind == 'u')
        return Py_BuildValue("NNddiii", PyLong_FromDouble(s.max), PyLong_FromDouble(s.min), s.mean, s.norm, 0, 0, 0);
    if (!certain)
        return Py_BuildValue("ddNdiii", s.max, s.min, PyObject_CallFunctionObjArgs(exact_mean, array, NULL), s.norm,
                             0, 0, 0);
    return Py_BuildValue("ddddLLL", s.max, s.min, s.mean, s.norm, (long long)s.nan, (long long)s.positive_inf,
                         (long long)s.negative_inf);
}

PyDoc_STRVAR(scan_doc, "scan(array, exact_mean)\n--\n\n"
                       "Return the values of a Statistic; None for an array whose memory cannot be processed directly.\n\n"
                       "`exact_mean(array)` is called if a sum cancels so much that the mean is not precise.");

static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "scan() takes an array and a function, not %zd arguments", count);
    PyObject *capsule = PyObject_GetAttr(args[0], array_struct_name);               /* new */
    const struct array *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL; /* borrowed */
    PyObject *found = NULL;                                                         /* new */
    if (a != NULL) {
        float_mode before = begin_exact_mode();
        size_t n = plain_size(a);
        floats_pass pass = n ? pass_for(a, args[0]) : NULL;
        if (pass)
            found = of_floats(a, n, pass, args[0], args[1]);
        else if (n && a->kind == 'i' && a->itemsize == 8)
            found = of_int64s(a, n);
        else if (n && a->kind == 'b')
            found = of_bools(a->data, n);
        else
            found = Py_NewRef(Py_None);
        end_exact_mode(before);
    }
    Py_XDECREF(capsule);
    return found;
}

PyDoc_STRVAR(at_least_doc, "at_least(array, limit)\n--\n\n"
                           "Return how many elements have a magnitude of at least `limit`, which is positive; NaN is not counted.\n\n"
                           "None for an array whose memory cannot be processed directly, and for one of bool.");

static PyObject *at_least(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "at_least() takes an array and a number, not %zd arguments", count);
    double limit = PyFloat_AsDouble(args[1]);
    PyObject *capsule = PyErr_Occurred() ? NULL : PyObject_GetAttr(args[0], array_struct_name); /* new */
    const struct array *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;         /* borrowed */
    PyObject *found = NULL;                                                                 /* new */
    if (a == NULL)
        goto done;
    at_least_pass pass = at_least_pass_for(a, args[0]);
    size_t n = pass ? plain_size(a) : 0;
    if (n) {
        float_mode before = begin_exact_mode();
        PyThreadState *thread = release_gil(a, n);
        int64_t number = pass(a->data, n, limit);
        take_gil(thread);
        end_exact_mode(before);
        found = PyLong_FromLongLong(number);
    } else
        found = Py_NewRef(Py_None);
done:
    Py_XDECREF(capsule);
    return found;
}

PyDoc_STRVAR(finite_doc, "finite(address, size, letter)\n--\n\n"
                         "Return whether `size` contiguous floats at `address` are finite; None for an unknown dtype.\n\n"
                         "`letter` is NumPy's character code, or 'E' for bfloat16. The caller keeps the memory alive.");

static PyObject *is_finite(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "finite() takes 3 arguments, not %zd", count);
    void *address = PyLong_AsVoidPtr(args[0]);
    size_t n = PyLong_AsSize_t(args[1]);
    const char *letter = PyUnicode_AsUTF8(args[2]);
    if (PyErr_Occurred())
        return NULL;
    finite_pass pass = NULL;
    struct array a = {.itemsize = 2};
    switch (*letter) {
    case 'e': pass = active_passes->finite.float16; break;
    case 'E': pass = active_passes->finite.bfloat16; break;
    case 'f': pass = active_passes->finite.float32, a.itemsize = 4; break;
    case 'd': pass = active_passes->finite.float64, a.itemsize = 8; break;
    }
    if (!pass || !address || (uintptr_t)address % (size_t)a.itemsize)
        Py_RETURN_NONE;
    PyThreadState *thread = release_gil(&a, n);
    int found = pass(address, n);
    take_gil(thread);
    return PyBool_FromLong(found);
}

PyDoc_STRVAR(memory_doc, "memory(address, size)\n--\n\n"
                         "Return a read-only memoryview of `size` bytes at `address`. The caller keeps the memory alive while it\n"
                         "is used.");

static PyObject *memory(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "memory() takes 2 arguments, not %zd", count);
    void *address = PyLong_AsVoidPtr(args[0]);
    Py_ssize_t size = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred())
        return NULL;
    if (!address || size < 0)
        return PyErr_Format(PyExc_ValueError, "no memory of %zd bytes at %p", size, address);
    return PyMemoryView_FromMemory(address, size, PyBUF_READ);
}

PyDoc_STRVAR(crc32c_doc, "crc32c(buffer, value)\n--\n\n"
                         "Return the CRC-32C of the bytes of a C-contiguous buffer, continued from `value`.");

static PyObject *crc32c(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    Py_buffer view;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "crc32c() takes a buffer and a number, not %zd arguments", count);
    unsigned long value = PyLong_AsUnsignedLong(args[1]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) != 0)
        return NULL;
    PyThreadState *thread = view.len >= 1 << 16 ? PyEval_SaveThread() : NULL;
    uint32_t found = ~crc32c_state(~(uint32_t)value, view.buf, (size_t)view.len);
    take_gil(thread);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(found);
}

PyDoc_STRVAR(choose_doc, "choose(instruction_set)\n--\n\n"
                         "Use the passes for an instruction set, 'avx2' or 'plain', from now on.\n\n"
                         "With 'plain', CRC-32C does not use the instruction of the processor either. Return False if the\n"
                         "processor does not support it. For tests: the best one is selected at import.");

static PyObject *choose(PyObject *Py_UNUSED(module), PyObject *instruction_set)
{
    const char *name = PyUnicode_AsUTF8(instruction_set);
    if (name == NULL)
        return NULL;
    const struct passes *found = passes_for(name);
    if (found) {
        active_passes = found;
        choose_crc32c(strcmp(name, "plain") != 0);
    }
    return PyBool_FromLong(found != NULL);
}

static PyMethodDef METHODS[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"record", (PyCFunction)(void (*)(void))record, METH_FASTCALL, record_doc},
    {"records", (PyCFunction)(void (*)(void))records, METH_FASTCALL, records_doc},
    {"brief", (PyCFunction)(void (*)(void))brief, METH_FASTCALL, brief_doc},
    {"crc32c", (PyCFunction)(void (*)(void))crc32c, METH_FASTCALL, crc32c_doc},
    {"at_least", (PyCFunction)(void (*)(void))at_least, METH_FASTCALL, at_least_doc},
    {"finite", (PyCFunction)(void (*)(void))is_finite, METH_FASTCALL, finite_doc},
    {"memory", (PyCFunction)(void (*)(void))memory, METH_FASTCALL, memory_doc},
    {"choose", choose, METH_O, choose_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_statistic",
    .m_doc = "The statistics of a tensor in one pass; see statistic.py.",
    .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__statistic(void)
{
    static const char WRITE_STATISTICS[] = "msprobe.base._statistic.write_statistics";
    const struct passes *best = passes_for("avx2");
    active_passes = best ? best : active_passes;
    make_crc32c_tables();
    choose_crc32c(1);
    array_struct_name = PyUnicode_InternFromString("__array_struct__");
    PyObject *module = array_struct_name ? PyModule_Create(&MODULE) : NULL; /* new */
    PyObject *capsule = module ? PyCapsule_New((void *)write_statistics, WRITE_STATISTICS, NULL) : NULL; /* new */
    if (module && (!capsule || PyModule_AddObjectRef(module, strrchr(WRITE_STATISTICS, '.') + 1, capsule) < 0))
        Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
}
