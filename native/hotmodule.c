/* The innermost loops of a worker: filing the bundles of a batch under their destinations.
 *
 * Called by tailrace/worker/outlet.py, which has the same loops in Python for machines without a compiler; a test holds
 * the two equal. Everything here works on plain Python lists under the GIL and keeps no state.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define MULTIPLIER 0x9E3779B97F4A7C15ULL
#define DESTS_ON_STACK 64

/* The columns of one outbox, borrowed from the caller's tuple. */
typedef struct {
    PyObject *values, *sizes, *roots, *incs, *lineages;
    uint64_t tag;
    Py_ssize_t filed; /* values of the bundle at hand */
} Box;

static uint64_t mix(uint64_t lineage, uint64_t tag)
{
    uint64_t x = (lineage ^ tag) * MULTIPLIER;
    return x ^ (x >> 29);
}

static int append_new(PyObject *list, PyObject *item)
{
    if (item == NULL) {
        return -1;
    }
    int failed = PyList_Append(list, item);
    Py_DECREF(item);
    return failed;
}

static int read_boxes(PyObject *columns, PyObject *tags, Box *boxes, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *row = PyList_GET_ITEM(columns, i);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 5) {
            PyErr_SetString(PyExc_TypeError, "expected five lists per outbox");
            return -1;
        }
        for (int c = 0; c < 5; c++) {
            if (!PyList_CheckExact(PyTuple_GET_ITEM(row, c))) {
                PyErr_SetString(PyExc_TypeError, "expected five lists per outbox");
                return -1;
            }
        }
        boxes[i] = (Box){PyTuple_GET_ITEM(row, 0), PyTuple_GET_ITEM(row, 1), PyTuple_GET_ITEM(row, 2),
                         PyTuple_GET_ITEM(row, 3), PyTuple_GET_ITEM(row, 4), 0, 0};
        boxes[i].tag = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(tags, i));
        if (boxes[i].tag == (uint64_t)-1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* Close the bundle at hand in every box that got some of it; gives the XOR of the new lineages. */
static int close_bundle(Box *boxes, Py_ssize_t n, PyObject *root, PyObject *inc, uint64_t parent, uint64_t *total)
{
    *total = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        Box *box = &boxes[i];
        if (box->filed == 0) {
            continue;
        }
        uint64_t lineage = mix(parent, box->tag);
        *total ^= lineage;
        if (append_new(box->sizes, PyLong_FromSsize_t(box->filed)) < 0 || PyList_Append(box->roots, root) < 0 ||
            PyList_Append(box->incs, inc) < 0 || append_new(box->lineages, PyLong_FromUnsignedLongLong(lineage)) < 0) {
            return -1;
        }
        box->filed = 0;
    }
    return 0;
}

static int file_value(Box *boxes, Py_ssize_t n, PyObject *dest, PyObject *value)
{
    Py_ssize_t at = PyLong_AsSsize_t(dest);
    if (at < 0 || at >= n) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_IndexError, "no outbox %zd", at);
        }
        return -1;
    }
    boxes[at].filed++;
    return PyList_Append(boxes[at].values, value);
}

/* The columns of a batch, checked to be of the lengths they must have. */
typedef struct {
    PyObject *values, *dests, *sizes, *roots, *incs, *lineages;
    Py_ssize_t bundles;
} Origin;

static int check_origin(Origin *o)
{
    o->bundles = PyList_GET_SIZE(o->lineages);
    Py_ssize_t values = PyList_GET_SIZE(o->values), covered = o->bundles;
    if (o->sizes != Py_None) {
        if (!PyList_CheckExact(o->sizes) || PyList_GET_SIZE(o->sizes) != o->bundles) {
            PyErr_SetString(PyExc_ValueError, "sizes must be a list with an entry per bundle");
            return -1;
        }
        covered = 0;
        for (Py_ssize_t b = 0; b < o->bundles; b++) {
            Py_ssize_t size = PyLong_AsSsize_t(PyList_GET_ITEM(o->sizes, b));
            if (size < 0) {
                PyErr_SetString(PyExc_ValueError, "a size must not be negative");
                return -1;
            }
            covered += size;
        }
    }
    if (covered != values || PyList_GET_SIZE(o->dests) != values || PyList_GET_SIZE(o->roots) != o->bundles ||
        PyList_GET_SIZE(o->incs) != o->bundles) {
        PyErr_SetString(PyExc_ValueError, "columns must agree in length");
        return -1;
    }
    return 0;
}

static int file_all(Origin *o, Box *boxes, Py_ssize_t n, PyObject *xors)
{
    Py_ssize_t at = 0;
    for (Py_ssize_t b = 0; b < o->bundles; b++) {
        Py_ssize_t size = o->sizes == Py_None ? 1 : PyLong_AsSsize_t(PyList_GET_ITEM(o->sizes, b));
        for (Py_ssize_t end = at + size; at < end; at++) {
            if (file_value(boxes, n, PyList_GET_ITEM(o->dests, at), PyList_GET_ITEM(o->values, at)) < 0) {
                return -1;
            }
        }
        uint64_t parent = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(o->lineages, b)), total;
        if (parent == (uint64_t)-1 && PyErr_Occurred()) {
            return -1;
        }
        if (close_bundle(boxes, n, PyList_GET_ITEM(o->roots, b), PyList_GET_ITEM(o->incs, b), parent, &total) < 0) {
            return -1;
        }
        PyObject *item = PyLong_FromUnsignedLongLong(total);
        if (item == NULL) {
            return -1;
        }
        PyList_SET_ITEM(xors, b, item);
    }
    return 0;
}

static PyObject *file_bundles(PyObject *module, PyObject *args)
{
    (void)module;
    Origin o;
    PyObject *columns, *tags;
    if (!PyArg_ParseTuple(args, "O!O!OO!O!O!O!O!", &PyList_Type, &o.values, &PyList_Type, &o.dests, &o.sizes, &PyList_Type,
                          &o.roots, &PyList_Type, &o.incs, &PyList_Type, &o.lineages, &PyList_Type, &columns, &PyList_Type,
                          &tags) ||
        check_origin(&o) < 0) {
        return NULL;
    }
    Py_ssize_t n = PyList_GET_SIZE(columns);
    if (PyList_GET_SIZE(tags) != n) {
        PyErr_SetString(PyExc_ValueError, "a tag per outbox is needed");
        return NULL;
    }
    Box small[DESTS_ON_STACK], *boxes = n <= DESTS_ON_STACK ? small : PyMem_Malloc((size_t)n * sizeof(Box));
    if (boxes == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *xors = NULL;
    if (read_boxes(columns, tags, boxes, n) == 0 && (xors = PyList_New(o.bundles)) != NULL &&
        file_all(&o, boxes, n, xors) < 0) {
        Py_CLEAR(xors);
    }
    if (boxes != small) {
        PyMem_Free(boxes);
    }
    return xors;
}

static PyObject *file_values(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *values, *dests, *lists;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyList_Type, &values, &PyList_Type, &dests, &PyList_Type, &lists)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(values), n = PyList_GET_SIZE(lists);
    if (PyList_GET_SIZE(dests) != count) {
        PyErr_SetString(PyExc_ValueError, "a destination per value is needed");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyList_GET_ITEM(dests, i));
        if (at < 0 || at >= n) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_IndexError, "no outbox %zd", at);
            }
            return NULL;
        }
        if (PyList_Append(PyList_GET_ITEM(lists, at), PyList_GET_ITEM(values, i)) < 0) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyObject *derive(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *lineages;
    unsigned long long tag;
    if (!PyArg_ParseTuple(args, "O!K", &PyList_Type, &lineages, &tag)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(lineages);
    PyObject *derived = PyList_New(count);
    for (Py_ssize_t i = 0; derived != NULL && i < count; i++) {
        uint64_t lineage = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(lineages, i));
        PyObject *item = PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(mix(lineage, tag));
        if (item == NULL) {
            Py_CLEAR(derived);
            break;
        }
        PyList_SET_ITEM(derived, i, item);
    }
    return derived;
}

static PyMethodDef methods[] = {
    {"file_bundles", file_bundles, METH_VARARGS,
     "file_bundles(values, dests, sizes, roots, incs, lineages, columns, tags): append each bundle to the columns of its "
     "destinations; gives the XOR of the derived lineages per bundle."},
    {"file_values", file_values, METH_VARARGS, "file_values(values, dests, lists): append each value to its list."},
    {"derive", derive, METH_VARARGS, "derive(lineages, tag): the lineage of each child that goes one way."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef hot = {PyModuleDef_HEAD_INIT, "_hot", "The innermost loops of a worker.", 0, methods,
                                 NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hot(void)
{
    return PyModule_Create(&hot);
}
