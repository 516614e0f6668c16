/* The innermost loops of a worker: filing the bundles of a batch under their destinations, keeping the ledger of open
 * roots, counting latencies.
 *
 * tailrace/hot.py has the same loops in Python for machines without a compiler; a test holds the two equal. Everything
 * here works on plain Python lists and dicts under the GIL and keeps no state.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#define MULTIPLIER 0x9E3779B97F4A7C15ULL

/* The columns of one outbox, borrowed from the caller's tuple, and where the bundle at hand stands in it. */
typedef struct {
    PyObject *values, *sizes, *roots, *incs, *lineages;
    uint64_t tag;     /* of the way that has this box's number */
    uint64_t way;     /* tag of the way that the bundle at hand takes to this box */
    Py_ssize_t filed; /* values of the piece at hand */
    uint64_t pieces;  /* pieces of the bundle closed so far; a large bundle is cut */
    int touched;
} Box;

/* The bundle being filed, and the boxes that got some of it. */
typedef struct {
    PyObject *root, *inc;
    uint64_t parent, total;
    Py_ssize_t touched_count;
} Bundle;

typedef struct {
    Box *boxes;
    Py_ssize_t *touched;
    Py_ssize_t n, piece_max;
} Filing;

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
                         PyTuple_GET_ITEM(row, 3), PyTuple_GET_ITEM(row, 4), 0, 0, 0, 0, 0};
        boxes[i].tag = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(tags, i));
        if (boxes[i].tag == (uint64_t)-1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* Give the values filed since the last piece a head of their own. */
static int close_piece(Box *box, Bundle *bundle)
{
    uint64_t lineage = mix(bundle->parent, box->way);
    if (box->pieces > 0) {
        lineage = mix(lineage, box->pieces);
    }
    bundle->total ^= lineage;
    if (append_new(box->sizes, PyLong_FromSsize_t(box->filed)) < 0 || PyList_Append(box->roots, bundle->root) < 0 ||
        PyList_Append(box->incs, bundle->inc) < 0 ||
        append_new(box->lineages, PyLong_FromUnsignedLongLong(lineage)) < 0) {
        return -1;
    }
    box->filed = 0;
    box->pieces++;
    return 0;
}

static int file_value(Filing *f, Bundle *bundle, PyObject *dest, PyObject *value)
{
    Py_ssize_t at = PyLong_AsSsize_t(dest);
    if (at < 0 || at >= f->n) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_IndexError, "no outbox %zd", at);
        }
        return -1;
    }
    Box *box = &f->boxes[at];
    if (!box->touched) {
        box->touched = 1;
        box->way = f->boxes[bundle->touched_count].tag;
        f->touched[bundle->touched_count++] = at;
    }
    if (PyList_Append(box->values, value) < 0) {
        return -1;
    }
    return ++box->filed == f->piece_max ? close_piece(box, bundle) : 0;
}

static int close_bundle(Filing *f, Bundle *bundle)
{
    for (Py_ssize_t i = 0; i < bundle->touched_count; i++) {
        Box *box = &f->boxes[f->touched[i]];
        if (box->filed > 0 && close_piece(box, bundle) < 0) {
            return -1;
        }
        box->pieces = 0;
        box->touched = 0;
    }
    return 0;
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

static int file_all(Filing *f, Origin *o, PyObject *xors)
{
    Py_ssize_t at = 0;
    for (Py_ssize_t b = 0; b < o->bundles; b++) {
        Bundle bundle = {PyList_GET_ITEM(o->roots, b), PyList_GET_ITEM(o->incs, b), 0, 0, 0};
        bundle.parent = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(o->lineages, b));
        if (bundle.parent == (uint64_t)-1 && PyErr_Occurred()) {
            return -1;
        }
        Py_ssize_t size = o->sizes == Py_None ? 1 : PyLong_AsSsize_t(PyList_GET_ITEM(o->sizes, b));
        for (Py_ssize_t end = at + size; at < end; at++) {
            if (file_value(f, &bundle, PyList_GET_ITEM(o->dests, at), PyList_GET_ITEM(o->values, at)) < 0) {
                return -1;
            }
        }
        if (close_bundle(f, &bundle) < 0) {
            return -1;
        }
        PyObject *item = PyLong_FromUnsignedLongLong(bundle.total);
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
    Filing f;
    PyObject *columns, *tags;
    if (!PyArg_ParseTuple(args, "O!O!OO!O!O!O!O!n", &PyList_Type, &o.values, &PyList_Type, &o.dests, &o.sizes,
                          &PyList_Type, &o.roots, &PyList_Type, &o.incs, &PyList_Type, &o.lineages, &PyList_Type,
                          &columns, &PyList_Type, &tags, &f.piece_max) ||
        check_origin(&o) < 0) {
        return NULL;
    }
    f.n = PyList_GET_SIZE(columns);
    if (PyList_GET_SIZE(tags) != f.n || f.piece_max < 1) {
        PyErr_SetString(PyExc_ValueError, "a tag per outbox and a positive piece_max are needed");
        return NULL;
    }
    f.boxes = PyMem_Malloc((size_t)(f.n + 1) * sizeof(Box));
    f.touched = PyMem_Malloc((size_t)(f.n + 1) * sizeof(Py_ssize_t));
    PyObject *xors = NULL;
    if (f.boxes == NULL || f.touched == NULL) {
        PyErr_NoMemory();
    } else if (read_boxes(columns, tags, f.boxes, f.n) == 0 && (xors = PyList_New(o.bundles)) != NULL &&
               file_all(&f, &o, xors) < 0) {
        Py_CLEAR(xors);
    }
    PyMem_Free(f.boxes);
    PyMem_Free(f.touched);
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

/* An open root in the ledger is a list; these are its places (tailrace/acking/ledger.py has the same). */
enum { OPEN_XOR, OPEN_INC, OPEN_DUE, OPEN_SENT, OPEN_GIVEN, OPEN_INDEX, OPEN_PLACES };

static PyObject *new_open(PyObject *xor, PyObject *inc, PyObject *due, PyObject *sent, PyObject *given, Py_ssize_t index)
{
    PyObject *number = PyLong_FromSsize_t(index), *entry = number == NULL ? NULL : PyList_New(OPEN_PLACES);
    if (entry == NULL) {
        Py_XDECREF(number);
        return NULL;
    }
    PyObject *places[] = {xor, inc, due, sent, given};
    for (int i = 0; i < OPEN_INDEX; i++) {
        Py_INCREF(places[i]);
        PyList_SET_ITEM(entry, i, places[i]);
    }
    PyList_SET_ITEM(entry, OPEN_INDEX, number);
    return entry;
}

static int append_latency(PyObject *latencies, PyObject *due, long long now_ns)
{
    long long due_ns = PyLong_AsLongLong(due);
    if (due_ns == -1 && PyErr_Occurred()) {
        return -1;
    }
    return append_new(latencies, PyLong_FromLongLong(now_ns - due_ns));
}

static int enter_one(PyObject *opened, PyObject *root, PyObject *entry)
{
    int failed = entry == NULL ? -1 : PyDict_SetItem(opened, root, entry);
    Py_XDECREF(entry);
    return failed;
}

static PyObject *enter(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *opened, *roots, *xors, *dues, *now, *inc, *given;
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!O!O", &PyDict_Type, &opened, &PyList_Type, &roots, &PyList_Type, &xors,
                          &PyList_Type, &dues, &PyLong_Type, &now, &PyLong_Type, &inc, &given)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(roots);
    if (PyList_GET_SIZE(xors) != count || PyList_GET_SIZE(dues) != count) {
        PyErr_SetString(PyExc_ValueError, "columns must agree in length");
        return NULL;
    }
    long long now_ns = PyLong_AsLongLong(now);
    PyObject *latencies = PyErr_Occurred() ? NULL : PyList_New(0);
    for (Py_ssize_t i = 0; latencies != NULL && i < count; i++) {
        PyObject *xor = PyList_GET_ITEM(xors, i), *due = PyList_GET_ITEM(dues, i);
        int open = PyObject_IsTrue(xor);
        int failed = open < 0 ? -1
                     : open   ? enter_one(opened, PyList_GET_ITEM(roots, i), new_open(xor, inc, due, now, given, i))
                              : append_latency(latencies, due, now_ns);
        if (failed) {
            Py_CLEAR(latencies);
        }
    }
    return latencies;
}

/* XOR an ack into an open root; done when nothing is left of it. */
static int settle_one(PyObject *opened, PyObject *root, PyObject *inc, PyObject *xor, PyObject *latencies,
                      long long now_ns)
{
    PyObject *entry = PyDict_GetItemWithError(opened, root);
    if (entry == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (!PyList_CheckExact(entry) || PyList_GET_SIZE(entry) != OPEN_PLACES) {
        PyErr_SetString(PyExc_TypeError, "an open root must be a list of six");
        return -1;
    }
    int same = PyObject_RichCompareBool(PyList_GET_ITEM(entry, OPEN_INC), inc, Py_EQ);
    if (same <= 0) {
        return same;
    }
    uint64_t before = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(entry, OPEN_XOR));
    uint64_t left = before ^ PyLong_AsUnsignedLongLong(xor);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (left != 0) {
        PyObject *number = PyLong_FromUnsignedLongLong(left);
        return number == NULL ? -1 : PyList_SetItem(entry, OPEN_XOR, number);
    }
    if (append_latency(latencies, PyList_GET_ITEM(entry, OPEN_DUE), now_ns) < 0) {
        return -1;
    }
    return PyDict_DelItem(opened, root);
}

static PyObject *settle(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *opened, *roots, *incs, *xors;
    long long now_ns;
    if (!PyArg_ParseTuple(args, "O!O!O!O!L", &PyDict_Type, &opened, &PyList_Type, &roots, &PyList_Type, &incs,
                          &PyList_Type, &xors, &now_ns)) {
        return NULL;
    }
    Py_ssize_t count = PyList_GET_SIZE(roots);
    if (PyList_GET_SIZE(incs) != count || PyList_GET_SIZE(xors) != count) {
        PyErr_SetString(PyExc_ValueError, "columns must agree in length");
        return NULL;
    }
    PyObject *latencies = PyList_New(0);
    for (Py_ssize_t i = 0; latencies != NULL && i < count; i++) {
        if (settle_one(opened, PyList_GET_ITEM(roots, i), PyList_GET_ITEM(incs, i), PyList_GET_ITEM(xors, i), latencies,
                       now_ns) < 0) {
            Py_CLEAR(latencies);
        }
    }
    return latencies;
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

static PyMethodDef methods[] = {
    {"file_bundles", file_bundles, METH_VARARGS,
     "Append each bundle to the columns of its destinations; gives the XOR of the derived lineages per bundle."},
    {"file_values", file_values, METH_VARARGS, "Append each value to the list of its destination."},
    {"enter", enter, METH_VARARGS, "Enter fresh roots into a ledger; gives the latencies of those complete at once."},
    {"settle", settle, METH_VARARGS, "Take acks into a ledger; gives the latencies of the roots they complete."},
    {"count_buckets", count_buckets, METH_VARARGS, "Count values into the buckets of a histogram."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef hot = {PyModuleDef_HEAD_INIT, "_hot", "The innermost loops of a worker.", 0, methods,
                                 NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hot(void)
{
    return PyModule_Create(&hot);
}
