/* OpenRoots: the open roots of a source task, oldest first, found by their id.
 *
 *     slab      entries in order of entry; [first, next) is in use, complete ones among them are dead until they are
 *               passed over or packed away
 *     buckets   open addressing with linear probing: place in the slab + 1, or 0
 *
 * A root is entered with what has to be acknowledged of it and is complete when nothing of that is left. tailrace/hot.py
 * has the same in Python.
 */
#include "hot.h"

#include <string.h>
#include <structmember.h>

#define FIRST_SLAB 1024
#define MULTIPLIER 0x9E3779B97F4A7C15ULL

typedef struct {
    uint64_t root, left, inc;
    int64_t due_ns, sent_ns, since_ns; /* since: the newest incarnation's sending */
    PyObject *given;
    uint64_t bytes; /* its part of what was given */
    uint32_t index;
    uint32_t live;
} Entry;

typedef struct {
    PyObject_HEAD
    Entry *slab;
    uint32_t *buckets;
    size_t room;        /* of the slab, a power of two; there are twice as many buckets */
    size_t first, next; /* counted on; the place is the count modulo the room */
    size_t live;
    unsigned long long bytes; /* of what was given for the live ones */
    long long done_sent_ns;   /* when the newest of those that are complete was first sent */
} OpenRoots;

static Entry *entry_at(const OpenRoots *self, size_t count)
{
    return &self->slab[count & (self->room - 1)];
}

static size_t home(const OpenRoots *self, uint64_t root)
{
    return (size_t)((root * MULTIPLIER) >> 32) & (2 * self->room - 1);
}

/* The bucket that has the root, or the empty one where it would go. */
static size_t bucket_of(const OpenRoots *self, uint64_t root)
{
    size_t at = home(self, root);
    while (self->buckets[at] != 0 && self->slab[self->buckets[at] - 1].root != root) {
        at = (at + 1) & (2 * self->room - 1);
    }
    return at;
}

static Entry *find(const OpenRoots *self, uint64_t root)
{
    uint32_t place = self->buckets[bucket_of(self, root)];
    return place == 0 ? NULL : &self->slab[place - 1];
}

/* Empty a bucket and move those behind it up that would not be found any more. */
static void vacate(OpenRoots *self, size_t hole)
{
    size_t mask = 2 * self->room - 1;
    for (size_t at = (hole + 1) & mask; self->buckets[at] != 0; at = (at + 1) & mask) {
        size_t wanted = home(self, self->slab[self->buckets[at] - 1].root);
        if (((at - wanted) & mask) >= ((at - hole) & mask)) {
            self->buckets[hole] = self->buckets[at];
            hole = at;
        }
    }
    self->buckets[hole] = 0;
}

static void close_entry(OpenRoots *self, Entry *entry)
{
    vacate(self, bucket_of(self, entry->root));
    entry->live = 0;
    self->live--;
    self->bytes -= entry->bytes;
    if (entry->sent_ns > self->done_sent_ns) {
        self->done_sent_ns = entry->sent_ns;
    }
    while (self->first < self->next && !entry_at(self, self->first)->live) {
        self->first++;
    }
    Py_CLEAR(entry->given);
}

/* Move the live entries into a slab of the given room. */
static int move_to(OpenRoots *self, size_t room)
{
    Entry *slab = PyMem_Malloc(room * sizeof(Entry));
    uint32_t *buckets = PyMem_Calloc(2 * room, sizeof(uint32_t));
    if (slab == NULL || buckets == NULL) {
        PyMem_Free(slab);
        PyMem_Free(buckets);
        PyErr_NoMemory();
        return -1;
    }
    size_t moved = 0;
    for (size_t count = self->first; count < self->next; count++) {
        if (entry_at(self, count)->live) {
            slab[moved++] = *entry_at(self, count);
        }
    }
    PyMem_Free(self->slab);
    PyMem_Free(self->buckets);
    self->slab = slab;
    self->buckets = buckets;
    self->room = room;
    self->first = 0;
    self->next = moved;
    for (size_t place = 0; place < moved; place++) {
        self->buckets[bucket_of(self, slab[place].root)] = (uint32_t)place + 1;
    }
    return 0;
}

static int make_room(OpenRoots *self)
{
    if (self->next - self->first < self->room) {
        return 0;
    }
    /* Where one old root holds up many dead ones, packing is enough. */
    return move_to(self, self->live < self->room / 2 ? self->room : 2 * self->room);
}

static int append_int(PyObject *list, PyObject *item)
{
    int failed = item == NULL ? -1 : PyList_Append(list, item);
    Py_XDECREF(item);
    return failed;
}

/* What was given for roots that are entered together, and what each of them has of its bytes. */
typedef struct {
    PyObject *given;
    uint64_t bytes;
} Gift;

static int enter_one(OpenRoots *self, const uint64_t *head, uint64_t left, int64_t due_ns, int64_t now_ns,
                     const Gift *gift, Py_ssize_t index)
{
    if (find(self, head[HEAD_ROOT]) != NULL) {
        PyErr_Format(PyExc_ValueError, "root %llu is open already", (unsigned long long)head[HEAD_ROOT]);
        return -1;
    }
    if (make_room(self) < 0) {
        return -1;
    }
    size_t place = self->next & (self->room - 1);
    self->slab[place] = (Entry){.root = head[HEAD_ROOT],
                                .left = left,
                                .inc = head[HEAD_INC],
                                .due_ns = due_ns,
                                .sent_ns = now_ns,
                                .since_ns = now_ns,
                                .given = Py_NewRef(gift->given),
                                .bytes = gift->bytes,
                                .index = (uint32_t)index,
                                .live = 1};
    self->buckets[bucket_of(self, head[HEAD_ROOT])] = (uint32_t)place + 1;
    self->next++;
    self->live++;
    self->bytes += gift->bytes;
    return 0;
}

/* The time a root was due: of the sequence, or now where there is none. */
static int64_t due_of(PyObject *dues, Py_ssize_t index, int64_t now_ns)
{
    if (dues == NULL) {
        return now_ns;
    }
    return PyLong_AsLongLong(PySequence_Fast_GET_ITEM(dues, index));
}

static int enter_all(OpenRoots *self, const Heads *in, const uint64_t *done, PyObject *dues, int64_t now_ns,
                     const Gift *gift, PyObject *latencies)
{
    for (Py_ssize_t i = 0; i < in->count; i++) {
        const uint64_t *head = in->at + i * HEAD_PLACES;
        int64_t due_ns = due_of(dues, i, now_ns);
        if (due_ns == -1 && PyErr_Occurred()) {
            return -1;
        }
        uint64_t left = head[HEAD_LINEAGE] ^ (done == NULL ? 0 : done[i]);
        int failed = left != 0 ? enter_one(self, head, left, due_ns, now_ns, gift, i)
                               : append_int(latencies, PyLong_FromLongLong(now_ns - due_ns));
        if (failed) {
            return -1;
        }
    }
    return 0;
}

static PyObject *open_roots_enter(OpenRoots *self, PyObject *args)
{
    PyObject *column, *done, *dues, *given, *latencies = NULL;
    long long now_ns;
    unsigned long long bytes = 0;
    Heads in = {0};
    Py_buffer done_view = {0};
    if (!PyArg_ParseTuple(args, "OOOLO|K", &column, &done, &dues, &now_ns, &given, &bytes) ||
        heads_open(&in, column) < 0) {
        return NULL;
    }
    Gift gift = {given, in.count ? bytes / (uint64_t)in.count : 0};
    PyObject *due_items = dues == Py_None ? NULL : PySequence_Fast(dues, "expected the times when roots were due");
    if ((dues == Py_None || due_items != NULL) &&
        (done == Py_None || PyObject_GetBuffer(done, &done_view, PyBUF_SIMPLE) == 0)) {
        if ((due_items != NULL && PySequence_Fast_GET_SIZE(due_items) != in.count) ||
            (done != Py_None && done_view.len != in.count * (Py_ssize_t)sizeof(uint64_t))) {
            PyErr_SetString(PyExc_ValueError, "columns must agree in length");
        } else {
            latencies = PyList_New(0);
        }
        if (latencies != NULL && enter_all(self, &in, done_view.buf, due_items, now_ns, &gift, latencies) < 0) {
            Py_CLEAR(latencies);
        }
    }
    heads_close(&in);
    if (done_view.obj != NULL) {
        PyBuffer_Release(&done_view);
    }
    Py_XDECREF(due_items);
    return latencies;
}

/* XOR one ack in. An ack of another incarnation is set aside for the caller. */
static int settle_one(OpenRoots *self, const uint64_t *head, int64_t now_ns, PyObject *latencies, PyObject *spent,
                      Numbers *strays)
{
    Entry *entry = find(self, head[HEAD_ROOT]);
    if (entry == NULL) {
        return 0;
    }
    if (entry->inc != head[HEAD_INC]) {
        return head_push(strays, head[HEAD_ROOT], head[HEAD_INC], head[HEAD_LINEAGE]);
    }
    entry->left ^= head[HEAD_LINEAGE];
    if (entry->left != 0) {
        return 0;
    }
    if (append_int(latencies, PyLong_FromLongLong(now_ns - entry->due_ns)) < 0 ||
        (spent != Py_None && append_int(spent, PyLong_FromLongLong(now_ns - entry->sent_ns)) < 0)) {
        return -1;
    }
    close_entry(self, entry);
    return 0;
}

static PyObject *open_roots_settle(OpenRoots *self, PyObject *args)
{
    PyObject *column, *spent;
    long long now_ns;
    Heads in = {0};
    Numbers strays = {0};
    if (!PyArg_ParseTuple(args, "OLO", &column, &now_ns, &spent)) {
        return NULL;
    }
    if (spent != Py_None && !PyList_Check(spent)) {
        PyErr_SetString(PyExc_TypeError, "expected a list for the times since roots were sent, or None");
        return NULL;
    }
    if (heads_open(&in, column) < 0) {
        return NULL;
    }
    PyObject *latencies = PyList_New(0), *found = NULL;
    for (Py_ssize_t i = 0; latencies != NULL && i < in.count; i++) {
        if (settle_one(self, in.at + i * HEAD_PLACES, now_ns, latencies, spent, &strays) < 0) {
            Py_CLEAR(latencies);
        }
    }
    heads_close(&in);
    PyObject *aside = latencies == NULL ? NULL : strays.length ? numbers_array(&strays) : Py_NewRef(Py_None);
    PyMem_Free(strays.items);
    if (aside != NULL) {
        found = PyTuple_Pack(2, latencies, aside);
        Py_DECREF(aside);
    }
    Py_XDECREF(latencies);
    return found;
}

static PyObject *open_roots_sent_before(OpenRoots *self, PyObject *args)
{
    long long before_ns;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(args, "Ln", &before_ns, &limit)) {
        return NULL;
    }
    PyObject *roots = PyList_New(0);
    for (size_t count = self->first; roots != NULL && count < self->next && PyList_GET_SIZE(roots) < limit; count++) {
        const Entry *entry = entry_at(self, count);
        if (entry->live && entry->since_ns < before_ns &&
            append_int(roots, PyLong_FromUnsignedLongLong(entry->root)) < 0) {
            Py_CLEAR(roots);
        }
    }
    return roots;
}

/* How long after its last sending a root is overdue: twice as long after each replay beyond the grace, up to a longest
 * wait. */
static int64_t patience_ns(uint64_t replays, uint64_t grace, int64_t timeout_ns, int64_t longest_ns)
{
    int64_t wait_ns = timeout_ns;
    for (; replays > grace && wait_ns < longest_ns; replays--) {
        wait_ns *= 2;
    }
    return wait_ns < longest_ns ? wait_ns : longest_ns;
}

static PyObject *open_roots_overdue(OpenRoots *self, PyObject *args)
{
    long long now_ns, before_ns, timeout_ns, longest_ns;
    Py_ssize_t limit;
    unsigned long long replays_max, grace;
    if (!PyArg_ParseTuple(args, "LLLLnKK", &now_ns, &before_ns, &timeout_ns, &longest_ns, &limit, &replays_max,
                          &grace)) {
        return NULL;
    }
    if (longest_ns < timeout_ns) {
        longest_ns = timeout_ns;
    }
    PyObject *roots = PyList_New(0);
    for (size_t count = self->first; roots != NULL && count < self->next && PyList_GET_SIZE(roots) < limit; count++) {
        const Entry *entry = entry_at(self, count);
        uint64_t replays = entry->inc & REPLAY_MAX;
        if (entry->live && now_ns - entry->sent_ns <= timeout_ns) {
            break; /* those behind it are younger */
        }
        if (entry->live && replays < replays_max && entry->since_ns < before_ns &&
            now_ns - entry->since_ns > patience_ns(replays, grace, timeout_ns, longest_ns) &&
            append_int(roots, PyLong_FromUnsignedLongLong(entry->root)) < 0) {
            Py_CLEAR(roots);
        }
    }
    return roots;
}

static PyObject *open_roots_ages(OpenRoots *self, PyObject *now)
{
    long long now_ns = PyLong_AsLongLong(now);
    if (now_ns == -1 && PyErr_Occurred()) {
        return NULL;
    }
    PyObject *ages = PyList_New(0);
    for (size_t count = self->first; ages != NULL && count < self->next; count++) {
        const Entry *entry = entry_at(self, count);
        if (entry->live && append_int(ages, PyLong_FromLongLong(now_ns - entry->sent_ns)) < 0) {
            Py_CLEAR(ages);
        }
    }
    return ages;
}

static Entry *find_or_raise(OpenRoots *self, PyObject *root)
{
    uint64_t number = PyLong_AsUnsignedLongLong(root);
    if (number == (uint64_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    Entry *entry = find(self, number);
    if (entry == NULL) {
        PyErr_SetObject(PyExc_KeyError, root);
    }
    return entry;
}

static PyObject *open_roots_look(OpenRoots *self, PyObject *root)
{
    const Entry *entry = find_or_raise(self, root);
    return entry == NULL ? NULL
                         : Py_BuildValue("KKLLOI", (unsigned long long)entry->left, (unsigned long long)entry->inc,
                                         (long long)entry->due_ns, (long long)entry->sent_ns, entry->given,
                                         entry->index);
}

static PyObject *open_roots_restart(OpenRoots *self, PyObject *args)
{
    PyObject *root;
    unsigned long long inc, left;
    long long now_ns;
    if (!PyArg_ParseTuple(args, "OKKL", &root, &inc, &left, &now_ns)) {
        return NULL;
    }
    Entry *entry = find_or_raise(self, root);
    if (entry == NULL) {
        return NULL;
    }
    entry->inc = inc;
    entry->left = left;
    entry->since_ns = now_ns;
    Py_RETURN_NONE;
}

static PyObject *open_roots_close(OpenRoots *self, PyObject *root)
{
    Entry *entry = find_or_raise(self, root);
    if (entry == NULL) {
        return NULL;
    }
    close_entry(self, entry);
    Py_RETURN_NONE;
}

static int note_low(PyObject *lows, uint64_t root)
{
    PyObject *partition = PyLong_FromUnsignedLongLong(root >> OFFSET_BITS);
    PyObject *offset = PyLong_FromUnsignedLongLong(root & OFFSET_MAX);
    int failed = partition == NULL || offset == NULL ? -1 : 0;
    if (!failed) {
        PyObject *known = PyDict_GetItemWithError(lows, partition);
        int lower = known == NULL ? 1 : PyObject_RichCompareBool(offset, known, Py_LT);
        failed = lower < 0 || PyErr_Occurred() || (lower && PyDict_SetItem(lows, partition, offset) < 0) ? -1 : 0;
    }
    Py_XDECREF(partition);
    Py_XDECREF(offset);
    return failed;
}

static PyObject *open_roots_lows(OpenRoots *self, PyObject *unused)
{
    (void)unused;
    PyObject *lows = PyDict_New();
    for (size_t count = self->first; lows != NULL && count < self->next; count++) {
        if (entry_at(self, count)->live && note_low(lows, entry_at(self, count)->root) < 0) {
            Py_CLEAR(lows);
        }
    }
    return lows;
}

static Py_ssize_t open_roots_length(OpenRoots *self)
{
    return (Py_ssize_t)self->live;
}

static int open_roots_contains(OpenRoots *self, PyObject *root)
{
    uint64_t number = PyLong_AsUnsignedLongLong(root);
    return number == (uint64_t)-1 && PyErr_Occurred() ? -1 : find(self, number) != NULL;
}

static PyObject *open_roots_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args;
    (void)kwargs;
    OpenRoots *self = (OpenRoots *)type->tp_alloc(type, 0);
    if (self != NULL && move_to(self, FIRST_SLAB) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int open_roots_traverse(OpenRoots *self, visitproc visit, void *arg)
{
    for (size_t count = self->first; count < self->next; count++) {
        Py_VISIT(entry_at(self, count)->given);
    }
    return 0;
}

static int open_roots_clear(OpenRoots *self)
{
    size_t first = self->first, next = self->next;
    self->first = self->next = self->live = 0;
    self->bytes = 0;
    if (self->buckets != NULL) {
        memset(self->buckets, 0, 2 * self->room * sizeof(uint32_t));
    }
    for (size_t count = first; count < next; count++) {
        Py_CLEAR(entry_at(self, count)->given);
    }
    return 0;
}

static void open_roots_dealloc(OpenRoots *self)
{
    PyObject_GC_UnTrack(self);
    open_roots_clear(self);
    PyMem_Free(self->slab);
    PyMem_Free(self->buckets);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyMethodDef methods[] = {
    {"enter", (PyCFunction)open_roots_enter, METH_VARARGS,
     "Enter fresh roots; gives the latencies of those that are complete already."},
    {"settle", (PyCFunction)open_roots_settle, METH_VARARGS,
     "XOR acks in; gives the latencies of the roots they complete, and the acks of other incarnations. Appends to a "
     "list, if given one, how long ago each of those roots was first sent."},
    {"sent_before", (PyCFunction)open_roots_sent_before, METH_VARARGS, "Roots last sent before a time, oldest first."},
    {"overdue", (PyCFunction)open_roots_overdue, METH_VARARGS,
     "Roots last sent before a time and longer ago than a timeout, oldest first: now, that time, the timeout, the "
     "longest it becomes, how many, the "
     "replays after which a root is passed over, and those after which its timeout doubles with each."},
    {"ages", (PyCFunction)open_roots_ages, METH_O, "How long ago each open root was first sent."},
    {"look", (PyCFunction)open_roots_look, METH_O, "What is left of a root, incarnation, due, sent, given, index."},
    {"restart", (PyCFunction)open_roots_restart, METH_VARARGS, "Begin another incarnation of a root."},
    {"close", (PyCFunction)open_roots_close, METH_O, "Take a root out."},
    {"lows", (PyCFunction)open_roots_lows, METH_NOARGS, "Per partition the lowest offset that is open."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"bytes", T_ULONGLONG, offsetof(OpenRoots, bytes), READONLY, "Bytes of what was given for the open roots."},
    {"done_sent_ns", T_LONGLONG, offsetof(OpenRoots, done_sent_ns), READONLY,
     "When the newest of the complete roots was first sent."},
    {NULL, 0, 0, 0, NULL},
};

static PySequenceMethods as_sequence = {
    .sq_length = (lenfunc)open_roots_length,
    .sq_contains = (objobjproc)open_roots_contains,
};

static PyTypeObject open_roots_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tailrace._hot.OpenRoots",
    .tp_doc = "Open roots of one source task, oldest first.",
    .tp_basicsize = sizeof(OpenRoots),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = open_roots_new,
    .tp_dealloc = (destructor)open_roots_dealloc,
    .tp_traverse = (traverseproc)open_roots_traverse,
    .tp_clear = (inquiry)open_roots_clear,
    .tp_methods = methods,
    .tp_members = members,
    .tp_as_sequence = &as_sequence,
};

int open_roots_ready(PyObject *module)
{
    return PyType_Ready(&open_roots_type) < 0 ||
                   PyModule_AddObjectRef(module, "OpenRoots", (PyObject *)&open_roots_type) < 0
               ? -1
               : 0;
}
