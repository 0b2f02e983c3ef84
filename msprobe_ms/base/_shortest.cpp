/* `_shortest.h` for extensions in C: a capsule with size_t (*)(double, char *), which writes a finite float and returns
   the number of letters. C has no function for the shortest digits of a number, C++ has one. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_shortest.h"

namespace {

#if HAS_SHORTEST
size_t letters_of(double number, char *to) { return static_cast<size_t>(write_shortest(to, number) - to); }
#endif

PyModuleDef module_of = {PyModuleDef_HEAD_INIT, "_shortest", "The shortest digits of floats, for extensions in C.", -1, nullptr};

} // namespace

PyMODINIT_FUNC PyInit__shortest() {
#if HAS_SHORTEST
    PyObject *module = PyModule_Create(&module_of);
    PyObject *capsule = module ? PyCapsule_New(reinterpret_cast<void *>(letters_of), "msprobe.base._shortest.write", nullptr) : nullptr;
    if (module && (!capsule || PyModule_AddObjectRef(module, "write", capsule) < 0)) Py_CLEAR(module);
    Py_XDECREF(capsule);
    return module;
#else
    PyErr_SetString(PyExc_ImportError, "the C++ library has no std::to_chars for floats");
    return nullptr;
#endif
}
