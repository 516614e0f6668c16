/*
 * The receiving calls of the Python face: taking records and lending them. Records become Python bytes here; whatever a damaged ring may hold becomes an OSError.
 */
#include "ring_face.h"

#include <errno.h>
#include <string.h>

static PyObject *read_side(Ring *self, const struct ring_view *view) {
    struct ring_side side;
    if (view->length < sizeof side) {
        return face_raise(EBADMSG, "the record of a side file is too short", self->path);
    }
    memcpy(&side, view->body, sizeof side);
    if (side.bytes > FACE_SIDE_BYTES_MAX) {
        return face_raise(EBADMSG, "the record of a side file is damaged", self->path);
    }
    PyObject *payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)side.bytes);
    if (payload != NULL && ring_side_read(self->folder, &side, PyBytes_AS_STRING(payload)) == -1) {
        Py_CLEAR(payload);
        face_raise(errno, "the side file of a large message cannot be read", self->path);
    }
    return payload;
}

/* Appends one entry, (target, payload); takes over `payload`. */
static bool append(PyObject *list, const struct ring_view *view, PyObject *payload) {
    if (payload == NULL) {
        return false;
    }
    PyObject *entry = PyTuple_New(2);
    if (entry == NULL) {
        Py_DECREF(payload);
        return false;
    }
    PyTuple_SET_ITEM(entry, 0, PyLong_FromUnsignedLong(view->target));
    PyTuple_SET_ITEM(entry, 1, payload);
    bool appended = !PyErr_Occurred() && PyList_Append(list, entry) == 0;
    Py_DECREF(entry);
    return appended;
}

/* What becomes of the records: bytes, the record finished; or, of large ones, the very bytes in the ring until the next
 * call. */
enum taking { TAKE, BORROW };

static bool is_lent(const Ring *self, const struct ring_view *view, enum taking how) {
    return how == BORROW && view->kind == RING_PLAIN && view->length >= FACE_BORROW_BYTES_MIN &&
           self->borrowed_count < FACE_BORROWED_MAX;
}

static void count_in(Ring *self, uint64_t bytes) {
    self->taken_count++;
    self->taken_bytes += bytes;
    self->largest_bytes = bytes > self->largest_bytes ? bytes : self->largest_bytes;
}

static bool append_record(Ring *self, PyObject *list, const struct ring_view *view, enum taking how) {
    PyObject *payload = is_lent(self, view, how)  ? span_of(self, view->body, view->length)
                        : view->kind == RING_SIDE ? read_side(self, view)
                                                  : PyBytes_FromStringAndSize((const char *)view->body, view->length);
    if (payload != NULL) {
        count_in(self, view->kind == RING_SIDE ? (uint64_t)PyBytes_GET_SIZE(payload) : view->length);
    }
    return append(list, view, payload);
}

/* Ends a claim. The side file goes after its record, so that a consumer killed between the two leaves a readable claim. */
static bool finish(Ring *self, uint64_t seq) {
    struct ring *r = &self->ring;
    const struct ring_head *head = ring_head_of(r, seq);
    uint64_t control = atomic_load(&ring_head_of(r, seq)->control);
    struct ring_side side = {0};
    if (ring_status_in(control) == RING_CLAIMED && ring_peer_in(control) == r->peer && head->kind == RING_SIDE) {
        uint32_t end = ring_end_in(control) == 0 ? r->arena_units : ring_end_in(control);
        memcpy(&side, r->arena + RING_BODY_OF(end - ring_units_for(head->length)), sizeof side);
    }
    bool done = ring_done(r, seq);
    if (done && side.name[0] != '\0') {
        ring_side_remove(self->folder, &side);
    }
    return done;
}

/* Frees what was lent out; whoever still looks at it sees other bytes from now on. */
void face_end_borrowing(Ring *self) {
    for (int i = 0; i < self->borrowed_count; i++) {
        ring_done(&self->ring, self->borrowed[i]);
    }
    if (self->borrowed_count > 0) {
        self->borrowed_count = 0;
        ring_advance_left(&self->ring);
    }
}

/* Takes up to `records_max` ready records. What was already taken is returned
 * even if a later record fails: that one is given back and fails again when it is alone. */
static PyObject *take_records(Ring *self, Py_ssize_t records_max, enum taking how) {
    face_end_borrowing(self);
    PyObject *list = PyList_New(0);
    struct ring_view view;
    enum ring_result result = RING_NOTHING;
    for (Py_ssize_t taken = 0; list != NULL && taken < records_max; taken++) {
        result = ring_take(&self->ring, &view);
        if (result != RING_OK) {
            break;
        }
        Py_ssize_t before = PyList_GET_SIZE(list);
        if (!append_record(self, list, &view, how)) {
            ring_give_back(&self->ring, view.seq);
            if (before == 0) {
                Py_CLEAR(list);
                break;
            }
            PyErr_Clear();
            PyList_SetSlice(list, before, PyList_GET_SIZE(list), NULL);
            break;
        }
        if (is_lent(self, &view, how)) {
            self->borrowed[self->borrowed_count++] = view.seq;
        } else {
            finish(self, view.seq);
        }
    }
    if (result == RING_CORRUPT && list != NULL && PyList_GET_SIZE(list) == 0) {
        Py_CLEAR(list);
        face_raise(EBADMSG, "a record's tag or length does not fit its place: the ring is damaged", self->path);
    }
    ring_advance_left(&self->ring);
    ring_maintain(&self->ring, ring_now_us());
    return list;
}

/* The hot calls: they wait and take in one, so that between the wake-up and the message no Python runs. */
static PyObject *wait_and_take(Ring *self, PyObject *const *args, Py_ssize_t count, enum taking how) {
    if (count != 2 && count != 3) {
        return PyErr_Format(PyExc_TypeError, "max_records, timeout_us and patient were expected, got %zd arguments", count);
    }
    Py_ssize_t records_max = PyLong_AsSsize_t(args[0]);
    long long timeout_us = PyErr_Occurred() ? 0 : PyLong_AsLongLong(args[1]);
    if (PyErr_Occurred() || !face_begin_consuming(self)) {
        return NULL;
    }
    if (timeout_us != 0 && !ring_has_ready(&self->ring)) {
        int news = face_wait(self, timeout_us, count == 3 && args[2] == Py_True);
        if (news != 1) {
            return news == -1 ? NULL : PyList_New(0);
        }
    }
    return take_records(self, records_max, how);
}

PyObject *Ring_receive(Ring *self, PyObject *const *args, Py_ssize_t count) {
    return wait_and_take(self, args, count, TAKE);
}

PyObject *Ring_borrow(Ring *self, PyObject *const *args, Py_ssize_t count) {
    return wait_and_take(self, args, count, BORROW);
}

PyObject *Ring_end_borrowing(Ring *self, PyObject *unused) {
    (void)unused;
    if (!face_begin_consuming(self)) {
        return NULL;
    }
    face_end_borrowing(self);
    Py_RETURN_NONE;
}

PyObject *Ring_tally(Ring *self, PyObject *unused) {
    (void)unused;
    PyObject *found = Py_BuildValue("KKK", (unsigned long long)self->taken_count, (unsigned long long)self->taken_bytes,
                                    (unsigned long long)self->largest_bytes);
    self->taken_count = self->taken_bytes = self->largest_bytes = 0;
    return found;
}
