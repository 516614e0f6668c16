/* Heads, names and number vectors; see hot.h. */
#include "hot.h"

#define MULTIPLIER 0x9E3779B97F4A7C15ULL
#define FIRST_ROOM 16

static PyObject *array_type, *frombytes_name, *typecode;

int hot_prepare(void)
{
    PyObject *module = PyImport_ImportModule("array");
    array_type = module == NULL ? NULL : PyObject_GetAttrString(module, "array");
    Py_XDECREF(module);
    frombytes_name = PyUnicode_InternFromString("frombytes");
    typecode = PyUnicode_InternFromString("Q");
    return array_type == NULL || frombytes_name == NULL || typecode == NULL ? -1 : 0;
}

uint64_t mix(uint64_t lineage, uint64_t tag)
{
    uint64_t x = (lineage ^ tag) * MULTIPLIER;
    return x ^ (x >> 29);
}

int numbers_push(Numbers *numbers, uint64_t item)
{
    if (numbers->length == numbers->room) {
        size_t room = numbers->room == 0 ? FIRST_ROOM : 2 * numbers->room;
        uint64_t *items = PyMem_Realloc(numbers->items, room * sizeof(uint64_t));
        if (items == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        numbers->items = items;
        numbers->room = room;
    }
    numbers->items[numbers->length++] = item;
    return 0;
}

static PyObject *as_bytes(const Numbers *numbers)
{
    return PyBytes_FromStringAndSize((const char *)numbers->items, (Py_ssize_t)(numbers->length * sizeof(uint64_t)));
}

PyObject *numbers_array(const Numbers *numbers)
{
    return heads_array((const unsigned char *)numbers->items, numbers->length * sizeof(uint64_t));
}

PyObject *heads_array(const unsigned char *at, size_t bytes)
{
    PyObject *raw = PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)bytes);
    PyObject *array = raw == NULL ? NULL : PyObject_CallFunctionObjArgs(array_type, typecode, raw, NULL);
    Py_XDECREF(raw);
    return array;
}

int numbers_append_to(const Numbers *numbers, PyObject *array)
{
    PyObject *bytes = as_bytes(numbers);
    PyObject *done = bytes == NULL ? NULL : PyObject_CallMethodOneArg(array, frombytes_name, bytes);
    Py_XDECREF(bytes);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

int head_push(Numbers *heads, uint64_t root, uint64_t inc, uint64_t lineage)
{
    int failed = numbers_push(heads, root) < 0 || numbers_push(heads, inc) < 0 || numbers_push(heads, lineage) < 0;
    return failed ? -1 : 0;
}

int heads_open(Heads *heads, PyObject *array)
{
    if (PyObject_GetBuffer(array, &heads->view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (heads->view.len % (Py_ssize_t)(HEAD_PLACES * sizeof(uint64_t)) != 0) {
        PyErr_SetString(PyExc_ValueError, "a column of heads has three numbers per bundle");
        PyBuffer_Release(&heads->view);
        return -1;
    }
    heads->at = heads->view.buf;
    heads->count = heads->view.len / (Py_ssize_t)(HEAD_PLACES * sizeof(uint64_t));
    return 0;
}

void heads_close(Heads *heads) { PyBuffer_Release(&heads->view); }
