/* Files the bundles of a batch under their destinations and names what it files.
 *
 * A bundle's lineage is its share of its root. What it gives rise to takes that share over: every piece but the last
 * gets a name of its own, and the last one what is left, so that the XOR over all pieces is the bundle's share again.
 * A task that passes everything on has nothing to acknowledge.
 */
#include "hot.h"

/* One outbox: its columns, borrowed from the caller's tuple, and where the bundle at hand stands in it. */
typedef struct {
    PyObject *values, *sizes, *heads;
    Numbers filed_heads; /* of this call, appended to the column at its end */
    uint64_t tag;        /* of the way that has this box's number */
    uint64_t way;        /* tag of the way that the bundle at hand takes to this box */
    Py_ssize_t filed;    /* values of the piece at hand */
    uint64_t pieces;     /* pieces of the bundle closed so far; a large bundle is cut */
    int touched;
} Box;

/* The bundle being filed: who it is, what of its share is still to be given away, how many boxes got some of it. */
typedef struct {
    const uint64_t *head;
    uint64_t share;
    Py_ssize_t touched_count;
} Bundle;

typedef struct {
    Box *boxes;
    Py_ssize_t *touched;
    Py_ssize_t n, piece_max;
    int last;
} Filing;

/* The columns of a batch, checked to be of the lengths they must have. */
typedef struct {
    PyObject *values, *dests, *sizes;
    Heads heads;
    Py_buffer shares_view;
    const uint64_t *shares;
} Origin;

static int read_boxes(PyObject *columns, PyObject *tags, Box *boxes, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *row = PyList_GET_ITEM(columns, i);
        if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != 3 || !PyList_CheckExact(PyTuple_GET_ITEM(row, 0)) ||
            !PyList_CheckExact(PyTuple_GET_ITEM(row, 1))) {
            PyErr_SetString(PyExc_TypeError, "expected values, sizes and heads per outbox");
            return -1;
        }
        boxes[i].values = PyTuple_GET_ITEM(row, 0);
        boxes[i].sizes = PyTuple_GET_ITEM(row, 1);
        boxes[i].heads = PyTuple_GET_ITEM(row, 2);
        boxes[i].tag = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(tags, i));
        if (boxes[i].tag == (uint64_t)-1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* Give the values filed since the last piece a head of their own. */
static int close_piece(Box *box, Bundle *bundle, int takes_the_rest)
{
    uint64_t lineage = bundle->share;
    if (!takes_the_rest) {
        lineage = mix(bundle->head[HEAD_LINEAGE], box->way);
        if (box->pieces > 0) {
            lineage = mix(lineage, box->pieces);
        }
    }
    bundle->share ^= lineage;
    PyObject *size = PyLong_FromSsize_t(box->filed);
    if (size == NULL || PyList_Append(box->sizes, size) < 0) {
        Py_XDECREF(size);
        return -1;
    }
    Py_DECREF(size);
    box->filed = 0;
    box->pieces++;
    return head_push(&box->filed_heads, bundle->head[HEAD_ROOT], bundle->head[HEAD_INC], lineage);
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
    } else if (box->filed == f->piece_max && close_piece(box, bundle, 0) < 0) {
        return -1;
    }
    box->filed++;
    return PyList_Append(box->values, value);
}

static int close_bundle(Filing *f, Bundle *bundle)
{
    for (Py_ssize_t i = 0; i < bundle->touched_count; i++) {
        Box *box = &f->boxes[f->touched[i]];
        if (close_piece(box, bundle, f->last && i == bundle->touched_count - 1) < 0) {
            return -1;
        }
        box->pieces = 0;
        box->touched = 0;
    }
    return 0;
}

static int open_origin(Origin *o, PyObject *heads, PyObject *shares)
{
    if (heads_open(&o->heads, heads) < 0) {
        return -1;
    }
    if (shares != Py_None) {
        if (PyObject_GetBuffer(shares, &o->shares_view, PyBUF_SIMPLE) < 0) {
            return -1;
        }
        o->shares = o->shares_view.buf;
    }
    Py_ssize_t values = PyList_GET_SIZE(o->values), covered = o->heads.count;
    if (o->sizes != Py_None) {
        if (!PyList_CheckExact(o->sizes) || PyList_GET_SIZE(o->sizes) != o->heads.count) {
            PyErr_SetString(PyExc_ValueError, "sizes must be a list with an entry per bundle");
            return -1;
        }
        covered = 0;
        for (Py_ssize_t b = 0; b < o->heads.count; b++) {
            Py_ssize_t size = PyLong_AsSsize_t(PyList_GET_ITEM(o->sizes, b));
            if (size < 0) {
                PyErr_SetString(PyExc_ValueError, "a size must not be negative");
                return -1;
            }
            covered += size;
        }
    }
    if (covered != values || PyList_GET_SIZE(o->dests) != values ||
        (o->shares != NULL && o->shares_view.len != o->heads.count * (Py_ssize_t)sizeof(uint64_t))) {
        PyErr_SetString(PyExc_ValueError, "columns must agree in length");
        return -1;
    }
    return 0;
}

static void close_origin(Origin *o)
{
    if (o->heads.at != NULL) {
        heads_close(&o->heads);
    }
    if (o->shares != NULL) {
        PyBuffer_Release(&o->shares_view);
    }
}

static int file_all(Filing *f, Origin *o, Numbers *left, int *any_left)
{
    Py_ssize_t at = 0;
    for (Py_ssize_t b = 0; b < o->heads.count; b++) {
        Bundle bundle = {o->heads.at + b * HEAD_PLACES, 0, 0};
        bundle.share = o->shares == NULL ? bundle.head[HEAD_LINEAGE] : o->shares[b];
        Py_ssize_t size = o->sizes == Py_None ? 1 : PyLong_AsSsize_t(PyList_GET_ITEM(o->sizes, b));
        for (Py_ssize_t end = at + size; at < end; at++) {
            if (file_value(f, &bundle, PyList_GET_ITEM(o->dests, at), PyList_GET_ITEM(o->values, at)) < 0) {
                return -1;
            }
        }
        if (close_bundle(f, &bundle) < 0 || numbers_push(left, bundle.share) < 0) {
            return -1;
        }
        *any_left |= bundle.share != 0;
    }
    for (Py_ssize_t i = 0; i < f->n; i++) {
        if (f->boxes[i].filed_heads.length > 0 &&
            numbers_append_to(&f->boxes[i].filed_heads, f->boxes[i].heads) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *file_origin(Origin *o, Filing *f, PyObject *columns, PyObject *tags)
{
    Numbers left = {0};
    int any_left = 0;
    PyObject *found = NULL;
    if (read_boxes(columns, tags, f->boxes, f->n) == 0 && file_all(f, o, &left, &any_left) == 0) {
        found = any_left ? numbers_array(&left) : Py_NewRef(Py_None);
    }
    PyMem_Free(left.items);
    for (Py_ssize_t i = 0; i < f->n; i++) {
        PyMem_Free(f->boxes[i].filed_heads.items);
    }
    return found;
}

PyObject *file_bundles(PyObject *module, PyObject *args)
{
    (void)module;
    Origin o = {0};
    Filing f = {0};
    PyObject *heads, *shares, *columns, *tags, *found = NULL;
    if (!PyArg_ParseTuple(args, "O!O!OOOpO!O!n", &PyList_Type, &o.values, &PyList_Type, &o.dests, &o.sizes, &heads,
                          &shares, &f.last, &PyList_Type, &columns, &PyList_Type, &tags, &f.piece_max)) {
        return NULL;
    }
    f.n = PyList_GET_SIZE(columns);
    if (PyList_GET_SIZE(tags) != f.n || f.piece_max < 1) {
        PyErr_SetString(PyExc_ValueError, "a tag per outbox and a positive piece_max are needed");
        return NULL;
    }
    f.boxes = PyMem_Calloc((size_t)f.n + 1, sizeof(Box));
    f.touched = PyMem_Calloc((size_t)f.n + 1, sizeof(Py_ssize_t));
    if (f.boxes == NULL || f.touched == NULL) {
        PyErr_NoMemory();
    } else if (open_origin(&o, heads, shares) == 0) {
        found = file_origin(&o, &f, columns, tags);
    }
    close_origin(&o);
    PyMem_Free(f.boxes);
    PyMem_Free(f.touched);
    return found;
}

PyObject *file_values(PyObject *module, PyObject *args)
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
