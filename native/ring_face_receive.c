/*
 * The receiving calls of the Python face: taking records, claiming them, and ending claims. Records become Python bytes
 * here; whatever a damaged ring may hold becomes an OSError.
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

/* Appends one entry, (target, payload) or (token, target, payload); takes over `payload`. */
static bool append(PyObject *list, const struct ring_view *view, PyObject *payload, bool with_token) {
    if (payload == NULL) {
        return false;
    }
    PyObject *entry = with_token ? Py_BuildValue("(KIN)", (unsigned long long)view->seq, view->target, payload)
                                 : Py_BuildValue("(IN)", view->target, payload);
    bool appended = entry != NULL && PyList_Append(list, entry) == 0;
    Py_XDECREF(entry);
    return appended;
}

static bool append_batch(Ring *self, PyObject *list, const struct ring_view *view, bool with_token) {
    const unsigned char *at = view->body, *end = view->body + view->length;
    while (at < end) {
        uint32_t length = 0;
        if ((size_t)(end - at) >= sizeof length) {
            memcpy(&length, at, sizeof length);
        }
        if ((size_t)(end - at) < sizeof length || (size_t)(end - at) - sizeof length < length) {
            face_raise(EBADMSG, "the inner lengths of a batch exceed its record", self->path);
            return false;
        }
        if (!append(list, view, PyBytes_FromStringAndSize((const char *)at + 4, length), with_token)) {
            return false;
        }
        at += 4 + length;
    }
    return true;
}

static bool append_record(Ring *self, PyObject *list, const struct ring_view *view, bool with_token) {
    if (view->kind == RING_BATCH) {
        return append_batch(self, list, view, with_token);
    }
    PyObject *payload = view->kind == RING_SIDE ? read_side(self, view)
                                                : PyBytes_FromStringAndSize((const char *)view->body, view->length);
    return append(list, view, payload, with_token);
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

/* Takes up to `records_max` ready records; without tokens they are finished at once. What was already taken is returned
 * even if a later record fails: that one is given back and fails again when it is alone. */
static PyObject *take_records(Ring *self, Py_ssize_t records_max, bool with_token) {
    PyObject *list = PyList_New(0);
    struct ring_view view;
    enum ring_result result = RING_NOTHING;
    for (Py_ssize_t taken = 0; list != NULL && taken < records_max; taken++) {
        result = ring_take(&self->ring, &view);
        if (result != RING_OK) {
            break;
        }
        Py_ssize_t before = PyList_GET_SIZE(list);
        if (!append_record(self, list, &view, with_token)) {
            ring_give_back(&self->ring, view.seq);
            if (before == 0) {
                Py_CLEAR(list);
                break;
            }
            PyErr_Clear();
            PyList_SetSlice(list, before, PyList_GET_SIZE(list), NULL);
            break;
        }
        if (!with_token) {
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

PyObject *Ring_recv(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"max_records", NULL};
    Py_ssize_t records_max = 64;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:recv", names, &records_max) || !face_begin_consuming(self)) {
        return NULL;
    }
    return take_records(self, records_max, false);
}

PyObject *Ring_claim(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"max_records", NULL};
    Py_ssize_t records_max = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:claim", names, &records_max) || !face_begin_consuming(self)) {
        return NULL;
    }
    return take_records(self, records_max, true);
}

static PyObject *end_claim(Ring *self, PyObject *token, bool done) {
    unsigned long long seq = PyLong_AsUnsignedLongLong(token);
    if (PyErr_Occurred() || !face_is_usable(self)) {
        return NULL;
    }
    if (!(done ? finish(self, seq) : ring_give_back(&self->ring, seq))) {
        return PyErr_Format(PyExc_ValueError, "record %llu is not claimed by this Ring", seq);
    }
    if (done) {
        ring_advance_left(&self->ring);
    }
    Py_RETURN_NONE;
}

PyObject *Ring_done(Ring *self, PyObject *token) { return end_claim(self, token, true); }

PyObject *Ring_give_back(Ring *self, PyObject *token) { return end_claim(self, token, false); }
