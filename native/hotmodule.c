/* The innermost loops of a worker as a Python module; hot_bundles.c files bundles, hot_roots.c keeps open roots,
 * hot_pack.c and hot_unpack.c write and read messages.
 *
 * tailrace/hot.py has the same in Python for machines without a compiler; a test holds the two equal. Everything here
 * runs under the GIL.
 */
#include "hot.h"

/* What the lineage of a root is derived with. */
#define SALT 0x2545F4914F6CDD1DULL

static PyObject *root_heads(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long partition, inc;
    PyObject *offsets;
    if (!PyArg_ParseTuple(args, "KOK", &partition, &offsets, &inc)) {
        return NULL;
    }
    PyObject *items = PySequence_Fast(offsets, "expected a sequence of offsets"), *found = NULL;
    Numbers heads = {0};
    int failed = items == NULL;
    for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(items); i++) {
        uint64_t offset = PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(items, i));
        uint64_t root = partition << OFFSET_BITS | offset;
        failed = PyErr_Occurred() != NULL || head_push(&heads, root, inc, mix(root, SALT)) < 0;
    }
    if (!failed) {
        found = numbers_array(&heads);
    }
    Py_XDECREF(items);
    PyMem_Free(heads.items);
    return found;
}

static PyObject *survey(PyObject *module, PyObject *column)
{
    (void)module;
    Heads in;
    if (heads_open(&in, column) < 0) {
        return NULL;
    }
    uint64_t low = UINT64_MAX, high = 0;
    int same = 1;
    for (Py_ssize_t i = 0; i < in.count; i++) {
        const uint64_t *head = in.at + i * HEAD_PLACES;
        low = head[HEAD_ROOT] < low ? head[HEAD_ROOT] : low;
        high = head[HEAD_ROOT] > high ? head[HEAD_ROOT] : high;
        same &= head[HEAD_INC] == in.at[HEAD_INC];
    }
    long long inc = same && in.count > 0 ? (long long)in.at[HEAD_INC] : -1;
    heads_close(&in);
    return Py_BuildValue("KKL", (unsigned long long)low, (unsigned long long)high, inc);
}

/* The heads of one partition. */
typedef struct {
    uint64_t partition;
    Numbers heads;
} Part;

static Part *part_of(Part **parts, size_t *count, uint64_t partition)
{
    for (size_t i = 0; i < *count; i++) {
        if ((*parts)[i].partition == partition) {
            return &(*parts)[i];
        }
    }
    Part *grown = PyMem_Realloc(*parts, (*count + 1) * sizeof(Part));
    if (grown == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *parts = grown;
    grown[*count] = (Part){partition, {0}};
    return &grown[(*count)++];
}

static PyObject *parts_dict(const Part *parts, size_t count)
{
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < count; i++) {
        PyObject *partition = PyLong_FromUnsignedLongLong(parts[i].partition);
        PyObject *heads = numbers_array(&parts[i].heads);
        if (partition == NULL || heads == NULL || PyDict_SetItem(found, partition, heads) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(partition);
        Py_XDECREF(heads);
    }
    return found;
}

static PyObject *by_partition(PyObject *module, PyObject *column)
{
    (void)module;
    Heads in;
    if (heads_open(&in, column) < 0) {
        return NULL;
    }
    Part *parts = NULL;
    size_t parts_count = 0;
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < in.count; i++) {
        const uint64_t *head = in.at + i * HEAD_PLACES;
        Part *part = part_of(&parts, &parts_count, head[HEAD_ROOT] >> OFFSET_BITS);
        failed = part == NULL || head_push(&part->heads, head[HEAD_ROOT], head[HEAD_INC], head[HEAD_LINEAGE]) < 0;
    }
    heads_close(&in);
    PyObject *found = failed ? NULL : parts_dict(parts, parts_count);
    for (size_t i = 0; i < parts_count; i++) {
        PyMem_Free(parts[i].heads.items);
    }
    PyMem_Free(parts);
    return found;
}

static PyObject *look_up(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *table, *keys;
    if (!PyArg_ParseTuple(args, "O!O", &PyDict_Type, &table, &keys)) {
        return NULL;
    }
    PyObject *items = PySequence_Fast(keys, "expected a sequence of keys");
    PyObject *found = items == NULL ? NULL : PyList_New(PySequence_Fast_GET_SIZE(items));
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(found); i++) {
        PyObject *key = PySequence_Fast_GET_ITEM(items, i);
        PyObject *value = Py_XNewRef(PyDict_GetItemWithError(table, key));
        if (value == NULL && !PyErr_Occurred()) {
            value = PyObject_GetItem(table, key); /* a table that knows what to do about missing keys */
        }
        if (value == NULL) {
            Py_CLEAR(found);
        } else {
            PyList_SET_ITEM(found, i, value);
        }
    }
    Py_XDECREF(items);
    return found;
}

/* Count one key up and append (key, count). */
static int count_key(PyObject *counts, PyObject *key, PyObject *into)
{
    PyObject *known = PyDict_GetItemWithError(counts, key);
    if (known == NULL && PyErr_Occurred()) {
        return -1;
    }
    PyObject *number = PyLong_FromLongLong((known == NULL ? 0 : PyLong_AsLongLong(known)) + 1);
    PyObject *pair = number == NULL || PyDict_SetItem(counts, key, number) < 0 ? NULL : PyTuple_Pack(2, key, number);
    int failed = pair == NULL ? -1 : PyList_Append(into, pair);
    Py_XDECREF(pair);
    Py_XDECREF(number);
    return failed;
}

static PyObject *count_keys(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *counts, *keys, *into;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyDict_Type, &counts, &PyList_Type, &keys, &PyList_Type, &into)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(keys); i++) {
        if (count_key(counts, PyList_GET_ITEM(keys, i), into) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

/* Five bits below the leading one, over the position of the leading one; tailrace/metrics/histogram.py explains. */
static long long bucket_of(long long value)
{
    if (value <= 0) {
        return 0;
    }
    int shift = 64 - __builtin_clzll((unsigned long long)value) - 6;
    return shift > 0 ? ((long long)shift << 5) + (value >> shift) : value;
}

static int count_one(PyObject *counts, long long bucket)
{
    PyObject *key = PyLong_FromLongLong(bucket);
    if (key == NULL) {
        return -1;
    }
    PyObject *found = PyDict_GetItemWithError(counts, key);
    PyObject *number = PyErr_Occurred() ? NULL : PyLong_FromLongLong((found ? PyLong_AsLongLong(found) : 0) + 1);
    int failed = number == NULL ? -1 : PyDict_SetItem(counts, key, number);
    Py_XDECREF(number);
    Py_DECREF(key);
    return failed;
}

static PyObject *count_buckets(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *counts, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &counts, &PyList_Type, &values)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); i++) {
        long long value = PyLong_AsLongLong(PyList_GET_ITEM(values, i));
        if ((value == -1 && PyErr_Occurred()) || count_one(counts, bucket_of(value)) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *has_kind(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *values, *kind;
    if (!PyArg_ParseTuple(args, "OO!", &values, &PyType_Type, &kind)) {
        return NULL;
    }
    PyObject *items = PySequence_Fast(values, "expected a sequence of values");
    if (items == NULL) {
        return NULL;
    }
    int found = 0;
    for (Py_ssize_t i = 0; !found && i < PySequence_Fast_GET_SIZE(items); i++) {
        found = (PyObject *)Py_TYPE(PySequence_Fast_GET_ITEM(items, i)) == kind;
    }
    Py_DECREF(items);
    return PyBool_FromLong(found);
}

static PyMethodDef methods[] = {
    {"file_bundles", file_bundles, METH_VARARGS,
     "Append each bundle to the columns of its destinations; gives what is left of each one's share, if anything."},
    {"file_values", file_values, METH_VARARGS, "Append each value to the list of its destination."},
    {"root_heads", root_heads, METH_VARARGS, "The heads of fresh roots of a partition."},
    {"survey", survey, METH_O, "The lowest and the highest root of heads, and their incarnation or -1 if several."},
    {"by_partition", by_partition, METH_O, "The heads of each partition."},
    {"look_up", look_up, METH_VARARGS, "Look keys up in a dict."},
    {"count_keys", count_keys, METH_VARARGS, "Count each key up and append it with its count to a list."},
    {"has_kind", has_kind, METH_VARARGS, "Whether one of some values is of a type itself."},
    {"count_buckets", count_buckets, METH_VARARGS, "Count values into the buckets of a histogram."},
    {"pack_frame", (PyCFunction)(void (*)(void))pack_frame, METH_FASTCALL,
     "A frame of data: channel, values, sizes and heads; None where the values are not all of one plain type."},
    {"open_message", open_message, METH_O,
     "Slot and attempt of a message's writer and its frames: kind, channel, and columns or bytes."},
    {"weigh", (PyCFunction)(void (*)(void))weigh, METH_FASTCALL,
     "About how many bytes the values of a list take in memory, from a place on."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef hot = {PyModuleDef_HEAD_INIT, "_hot", "The innermost loops of a worker.", -1, methods,
                                 NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hot(void)
{
    PyObject *module = PyModule_Create(&hot);
    if (module != NULL && (hot_prepare() < 0 || open_roots_ready(module) < 0)) {
        Py_CLEAR(module);
    }
    return module;
}
