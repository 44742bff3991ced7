"""C source of the extension module around compiled kernels: takes Python's arguments apart and calls machine code.

A kernel takes each array as two null pointers, its number of elements, their size, the data, its shape and its strides;
that is Numba's calling convention, which `deploy.machine_code` compiles for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Protocol

import numpy as np

# Of these parts Numba states no types, or others than they have.
types: Any = import_module("numba.core.types")
cpu_target: Any = import_module("numba.core.registry").cpu_target
as_dtype: Any = import_module("numba.np.numpy_support").as_dtype


class _Exported(Protocol):
    @property
    def kernel(self) -> str: ...
    @property
    def symbol(self) -> str: ...
    @property
    def arguments(self) -> tuple[Any, ...]: ...
    @property
    def returned(self) -> Any: ...


_HEAD: Final = r"""/* Written by deploy/machine_code_c.py. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* The types of arrays, of which an equal one that was met replaces the one that was made: mostly both are one object. */
static PyObject *types;
static PyObject *word_dtype;

static int of_type(PyObject *given, int type)
{
    PyObject *have = PyObject_GetAttr(given, word_dtype);
    if (have == NULL) {
        PyErr_Format(PyExc_TypeError, "a kernel takes an array of %R, got %R", PyList_GetItem(types, type), (PyObject *)Py_TYPE(given));
        return -1;
    }
    PyObject *want = PyList_GetItem(types, type);
    if (have == want) {
        Py_DECREF(have);
        return 0;
    }
    int same = PyObject_RichCompareBool(have, want, Py_EQ);
    if (same == 1)
        return PyList_SetItem(types, type, have);
    if (same == 0)
        PyErr_Format(PyExc_TypeError, "a kernel takes an array of %R, got one of %R", want, have);
    Py_DECREF(have);
    return -1;
}

static int take_array(PyObject *given, Py_buffer *view, int type, int dimensions, int flags)
{
    if (of_type(given, type) < 0 || PyObject_GetBuffer(given, view, flags) < 0)
        return -1;
    if (view->ndim != dimensions) {
        PyErr_Format(PyExc_TypeError, "a kernel takes an array of %d dimensions, got one of %d", dimensions, view->ndim);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

__attribute__((unused)) static int take_record(PyObject *given, Py_buffer *view, int type)
{
    return of_type(given, type) < 0 || PyObject_GetBuffer(given, view, PyBUF_SIMPLE) < 0 ? -1 : 0;
}

static int take_int(PyObject *given, int64_t *out, int64_t least, int64_t most)
{
    PyObject *number = PyNumber_Index(given);
    if (number == NULL)
        return -1;
    long long value = PyLong_AsLongLong(number);
    Py_DECREF(number);
    if (value == -1 && PyErr_Occurred())
        return -1;
    if (value < least || value > most) {
        PyErr_SetString(PyExc_OverflowError, "an argument of a kernel is too large for its type");
        return -1;
    }
    *out = value;
    return 0;
}

__attribute__((unused)) static int take_unsigned(PyObject *given, uint64_t *out, uint64_t most)
{
    PyObject *number = PyNumber_Index(given);
    if (number == NULL)
        return -1;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (value == (unsigned long long)-1 && PyErr_Occurred())
        return -1;
    if (value > most) {
        PyErr_SetString(PyExc_OverflowError, "an argument of a kernel is too large for its type");
        return -1;
    }
    *out = value;
    return 0;
}

static int take_float(PyObject *given, double *out)
{
    *out = PyFloat_AsDouble(given);
    return *out == -1.0 && PyErr_Occurred() ? -1 : 0;
}

static int take_tuple(PyObject *given, Py_ssize_t size)
{
    if (PyTuple_Check(given) && PyTuple_Size(given) == size)
        return 0;
    PyErr_Format(PyExc_TypeError, "a kernel takes a tuple of %zd, got %R", size, (PyObject *)Py_TYPE(given));
    return -1;
}

static int take_count(Py_ssize_t given, Py_ssize_t size)
{
    if (given == size)
        return 0;
    PyErr_Format(PyExc_TypeError, "a kernel takes %zd arguments, got %zd", size, given);
    return -1;
}

"""

_TAIL: Final = r"""
static PyObject *start(PyObject *module, PyObject *made)
{
    if (!PyList_Check(made) || PyList_Size(made) != TYPES) {
        PyErr_SetString(PyExc_TypeError, "expected a list of one type for each of TYPES");
        return NULL;
    }
    Py_INCREF(made);
    Py_XDECREF(types);
    types = made;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"start", start, METH_O, "Take the types of arrays as numpy.dtype, in the order of TYPES."}, {NULL, NULL, 0, NULL}
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_machine", "Machine code of the kernels.", -1, methods, NULL, NULL, NULL, NULL
};

static int add_functions(PyObject *module)
{
    PyObject *found = PyDict_New();
    if (found == NULL || PyModule_AddObjectRef(module, "FUNCTIONS", found) < 0)
        return -1;
    for (size_t k = 0; k < sizeof(functions) / sizeof(functions[0]);) {
        Py_ssize_t many = 0;
        while (k + many < sizeof(functions) / sizeof(functions[0]) && strcmp(kernels[k], kernels[k + many]) == 0)
            many++;
        PyObject *overloads = PyTuple_New(many);
        if (overloads == NULL)
            return -1;
        for (Py_ssize_t i = 0; i < many; i++) {
            PyObject *function = PyCFunction_NewEx(&functions[k + i], NULL, NULL);
            if (function == NULL || PyTuple_SetItem(overloads, i, function) < 0)
                return -1;
        }
        if (PyDict_SetItemString(found, kernels[k], overloads) < 0)
            return -1;
        Py_DECREF(overloads);
        k += many;
    }
    Py_DECREF(found);
    return 0;
}

static int add_types(PyObject *module)
{
    PyObject *found = PyTuple_New(TYPES);
    if (found == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < TYPES; i++) {
        PyObject *text = PyUnicode_FromString(described[i]);
        if (text == NULL || PyTuple_SetItem(found, i, text) < 0)
            return -1;
    }
    int done = PyModule_AddObjectRef(module, "TYPES", found);
    Py_DECREF(found);
    return done;
}

PyMODINIT_FUNC PyInit__machine(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) {
        PyErr_SetString(PyExc_ImportError, "this processor lacks SSE 4.2");
        return NULL;
    }
#endif
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    word_dtype = PyUnicode_InternFromString("dtype");
    if (word_dtype == NULL || add_functions(module) < 0 || add_types(module) < 0
        || PyModule_AddStringConstant(module, "SOURCES", SOURCES) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
"""


class _Types:
    """Types of arrays, each once."""

    def __init__(self) -> None:
        self.descriptions: list[str] = []

    def number(self, dtype: Any) -> int:
        text = repr(np.lib.format.dtype_to_descr(as_dtype(dtype)))
        if text not in self.descriptions:
            self.descriptions.append(text)
        return self.descriptions.index(text)


class _Call:
    """The body of one function: statements that take arguments apart, and what they yield."""

    def __init__(self, dtypes: _Types) -> None:
        self.lines: list[str] = []
        self.passed: list[str] = []
        self.c_types: list[str] = []
        self.views = 0
        self._dtypes = dtypes
        self._names = 0

    def take(self, kind: Any, given: str) -> None:
        """Take one argument, which is the C expression `given`."""
        if isinstance(kind, types.Array):
            self._array(kind, given)
        elif isinstance(kind, types.Record):
            self._fail_unless(f"take_record({given}, &views[{self.views}], {self._dtypes.number(kind)})")
            self._pass("void *", f"views[{self._viewed()}].buf")
        elif isinstance(kind, types.BaseTuple):
            self._fail_unless(f"take_tuple({given}, {len(kind)})")
            for place, each in enumerate(kind):
                name = self._name("item")
                self.lines.append(f"PyObject *{name} = PyTuple_GetItem({given}, {place});")
                self.take(each, name)
        else:
            self._scalar(types.unliteral(kind), given)

    def _array(self, kind: Any, given: str) -> None:
        flags = "PyBUF_C_CONTIGUOUS" if kind.layout == "C" else "PyBUF_STRIDES"
        flags += " | PyBUF_WRITABLE" if kind.mutable else ""
        number = self._dtypes.number(kind.dtype)
        self._fail_unless(f"take_array({given}, &views[{self.views}], {number}, {kind.ndim}, {flags})")
        view, size = f"views[{self._viewed()}]", as_dtype(kind.dtype).itemsize
        self._pass("void *", "NULL")
        self._pass("void *", "NULL")
        self._pass("int64_t", f"{view}.len / {size}")
        self._pass("int64_t", str(size))
        self._pass("void *", f"{view}.buf")
        for member in ("shape", "strides"):
            for axis in range(kind.ndim):
                self._pass("int64_t", f"{view}.{member}[{axis}]")

    def _scalar(self, kind: Any, given: str) -> None:
        name = self._name("value")
        if isinstance(kind, types.Boolean):
            self.lines.append(f"int {name} = PyObject_IsTrue({given});")
            self._fail_unless(name)
            self._pass("int8_t", name)
        elif isinstance(kind, types.Float) and kind.bitwidth == 64:
            self.lines.append(f"double {name};")
            self._fail_unless(f"take_float({given}, &{name})")
            self._pass("double", name)
        elif isinstance(kind, types.Integer) and kind.signed:
            self.lines.append(f"int64_t {name};")
            limits = f"INT{kind.bitwidth}_MIN, INT{kind.bitwidth}_MAX"
            self._fail_unless(f"take_int({given}, &{name}, {limits})")
            self._pass(f"int{kind.bitwidth}_t", name)
        elif isinstance(kind, types.Integer):
            self.lines.append(f"uint64_t {name};")
            self._fail_unless(f"take_unsigned({given}, &{name}, UINT{kind.bitwidth}_MAX)")
            self._pass(f"uint{kind.bitwidth}_t", name)
        else:
            raise TypeError(f"a kernel takes an argument of type {kind}, for which no C is written here")

    def _fail_unless(self, taken: str) -> None:
        self.lines.append(f"if ({taken} < 0) goto end;")

    def _pass(self, c_type: str, value: str) -> None:
        self.c_types.append(c_type)
        self.passed.append(value)

    def _viewed(self) -> int:
        self.views += 1
        self.lines.append(f"taken = {self.views};")
        return self.views - 1

    def _name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}_{self._names}"


def source(exports: Sequence[_Exported], digest: str) -> str:
    """The whole file; `digest`: that of the kernels' sources."""
    dtypes = _Types()
    functions = [_function(each, dtypes) for each in exports]
    rows = ",\n".join(
        f'    {{"{each.kernel.rpartition(".")[2]}", (PyCFunction)(void (*)(void))call_{each.symbol}, METH_FASTCALL, NULL}}'
        for each in exports
    )
    names = ",\n".join(f'    "{each.kernel}"' for each in exports)
    described = ",\n".join(f'    "{_escaped(each)}"' for each in dtypes.descriptions)
    return (
        f'{_HEAD}#define SOURCES "{digest}"\n#define TYPES {len(dtypes.descriptions)}\n\n'
        + "\n".join(functions)
        + f"\nstatic PyMethodDef functions[] = {{\n{rows}\n}};\n"
        + f"\nstatic const char *const kernels[] = {{\n{names}\n}};\n"
        + f"\nstatic const char *const described[] = {{\n{described}\n}};\n"
        + _TAIL
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _function(export: _Exported, dtypes: _Types) -> str:
    call = _Call(dtypes)
    for place, kind in enumerate(export.arguments):
        call.take(kind, f"given[{place}]")
    context: Any = cpu_target.target_context
    expected = context.call_conv._get_arg_packer(export.arguments).argument_types  # noqa: SLF001 - to compare
    if len(expected) != len(call.passed):
        raise AssertionError(f"{export.kernel}: {len(call.passed)} values for {len(expected)} parameters")
    returned = _returned(export.returned)
    statements = "\n".join(f"    {line}" for line in call.lines)
    return f"""\
extern int32_t {export.symbol}({", ".join(["void *", "void **", *call.c_types])});

static PyObject *call_{export.symbol}(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{{
    PyObject *result = NULL;
    Py_buffer views[{max(call.views, 1)}];
    int taken = 0;
    int32_t status;
    void *fault = NULL;
    {returned.declared};
    if (take_count(count, {len(export.arguments)}) < 0) goto end;
{statements}
    Py_BEGIN_ALLOW_THREADS
    status = {export.symbol}({", ".join(["&returned", "&fault", *call.passed])});
    Py_END_ALLOW_THREADS
    if (status == 0)
        result = {returned.made};
    else
        PyErr_Format(PyExc_RuntimeError, "{export.kernel} ended with %d", (int)status);
end:
    while (taken > 0)
        PyBuffer_Release(&views[--taken]);
    return result;
}}
"""


class _Returned:
    def __init__(self, declared: str, made: str) -> None:
        self.declared, self.made = declared, made


def _returned(kind: Any) -> _Returned:
    if isinstance(kind, types.NoneType):
        return _Returned("void *returned = NULL", "Py_NewRef(Py_None)")
    if isinstance(kind, types.BaseTuple):
        parts = [_part(types.unliteral(each)) for each in kind]
        members = " ".join(f"{c_type} part_{place};" for place, (c_type, _, _) in enumerate(parts))
        values = ", ".join(cast.format(f"returned.part_{place}") for place, (_, _, cast) in enumerate(parts))
        formats = "".join(letter for _, letter, _ in parts)
        return _Returned(f"struct {{ {members} }} returned", f'Py_BuildValue("({formats})", {values})')
    c_type, letter, cast = _part(types.unliteral(kind))
    return _Returned(f"{c_type} returned", f'Py_BuildValue("{letter}", {cast.format("returned")})')


def _part(kind: Any) -> tuple[str, str, str]:
    """The C type of a returned value, its letter for Py_BuildValue, and the value cast for that."""
    if isinstance(kind, types.Boolean):
        return "int8_t", "N", "PyBool_FromLong({})"
    if isinstance(kind, types.Float) and kind.bitwidth == 64:
        return "double", "d", "{}"
    if isinstance(kind, types.Integer) and kind.signed:
        return f"int{kind.bitwidth}_t", "L", "(long long){}"
    if isinstance(kind, types.Integer):
        return f"uint{kind.bitwidth}_t", "K", "(unsigned long long){}"
    raise TypeError(f"a kernel returns a {kind}, for which no C is written here")
