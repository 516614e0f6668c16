/*
 * The sending calls of the Python face: one message, a batch under one head, a large one by a side file. The GIL is held
 * while bytes are copied into the ring and released while there is no room.
 */
#include "ring_face.h"

#include <errno.h>
#include <string.h>

static bool fits(const Ring *self, uint64_t length, bool batch) {
    if (length <= face_message_bytes_max(self)) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "a %s of %llu bytes is larger than max_message_bytes, %llu", batch ? "batch" : "message",
                 (unsigned long long)length, (unsigned long long)face_message_bytes_max(self));
    return false;
}

static bool is_target(unsigned long target) {
    if (target <= UINT32_MAX) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "target %lu does not fit 32 bits", target);
    return false;
}

/* 1: reserved; 0: no room in time; -1: error set. timeout_us 0 does not wait, below 0 waits for ever. */
static int reserve(Ring *self, uint32_t units, long long timeout_us, struct ring_ticket *ticket) {
    enum ring_result result = ring_reserve(&self->ring, units, ticket);
    if (result == RING_FULL) {
        atomic_fetch_add_explicit(&self->ring.file->full_count, 1, memory_order_relaxed);
    }
    int64_t deadline_us = timeout_us < 0 ? INT64_MAX : timeout_us == 0 ? 0 : ring_now_us() + timeout_us;
    while (result != RING_OK && timeout_us != 0) {
        self->users++;
        Py_BEGIN_ALLOW_THREADS;
        int64_t slice_us = ring_now_us() + FACE_SIGNAL_SLICE_US;
        result = ring_reserve_wait(&self->ring, units, ticket, deadline_us < slice_us ? deadline_us : slice_us);
        Py_END_ALLOW_THREADS;
        bool closed = self->closed;
        if (result == RING_OK && closed) {
            ring_abandon(&self->ring, ticket);
        }
        face_end_use(self);
        if (closed) {
            PyErr_SetString(PyExc_ValueError, "the ring was closed while sending");
            return -1;
        }
        if (result == RING_OK) {
            break;
        }
        if (PyErr_CheckSignals() == -1) {
            return -1;
        }
        if (ring_now_us() >= deadline_us) {
            break;
        }
    }
    return result == RING_OK;
}

/* How a message is published: its reader is woken and, if it slept, given the core; only woken; or, patient, left asleep. */
enum manner { ASIDE, STAY, CAN_WAIT };

static PyObject *send_plain(Ring *self, unsigned long target, Py_buffer *payload, long long timeout_us, enum manner manner) {
    struct ring_ticket ticket;
    if (!face_is_usable(self) || !is_target(target) || !fits(self, (uint64_t)payload->len, false)) {
        return NULL;
    }
    int reserved = reserve(self, ring_units_for((uint64_t)payload->len), timeout_us, &ticket);
    if (reserved == 1) {
        memcpy(ticket.body, payload->buf, (size_t)payload->len);
        uint32_t length = (uint32_t)payload->len;
        if (manner == CAN_WAIT) {
            ring_publish_calmly(&self->ring, &ticket, (uint32_t)target, length, RING_PLAIN);
        } else if (ring_publish(&self->ring, &ticket, (uint32_t)target, length, RING_PLAIN) && manner == ASIDE) {
            ring_step_aside(&self->ring);
        }
    }
    return reserved == -1 ? NULL : PyBool_FromLong(reserved);
}

/* The hot call: no argument tuple, no keywords. */
PyObject *Ring_try_send(Ring *self, PyObject *const *args, Py_ssize_t count) {
    Py_buffer payload;
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "try_send takes target and payload, got %zd arguments", count);
    }
    unsigned long target = PyLong_AsUnsignedLong(args[0]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[1], &payload, PyBUF_SIMPLE) == -1) {
        return NULL;
    }
    PyObject *result = send_plain(self, target, &payload, 0, ASIDE);
    PyBuffer_Release(&payload);
    return result;
}

static PyObject *send_side(Ring *self, unsigned long target, Py_buffer *payload, long long timeout_us);

/* Sends a message of any size, the large ones by a side file; no keywords, for the same reason. */
PyObject *Ring_post(Ring *self, PyObject *const *args, Py_ssize_t count) {
    Py_buffer payload;
    if (count < 3 || count > 5) {
        return PyErr_Format(PyExc_TypeError, "post takes target, payload, timeout_us, can_wait and aside, got %zd arguments",
                            count);
    }
    enum manner manner = count > 3 && args[3] == Py_True ? CAN_WAIT : count > 4 && args[4] != Py_True ? STAY : ASIDE;
    unsigned long target = PyLong_AsUnsignedLong(args[0]);
    long long timeout_us = PyErr_Occurred() ? 0 : PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred() || !face_is_usable(self) || PyObject_GetBuffer(args[1], &payload, PyBUF_SIMPLE) == -1) {
        return NULL;
    }
    bool large = (uint64_t)payload.len > face_message_bytes_max(self);
    PyObject *result = large ? send_side(self, target, &payload, timeout_us)
                             : send_plain(self, target, &payload, timeout_us, manner);
    PyBuffer_Release(&payload);
    return result;
}

PyObject *Ring_send(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"target", "payload", "timeout_us", NULL};
    unsigned long target;
    Py_buffer payload;
    long long timeout_us;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ky*L:send", names, &target, &payload, &timeout_us)) {
        return NULL;
    }
    PyObject *result = send_plain(self, target, &payload, timeout_us, ASIDE);
    PyBuffer_Release(&payload);
    return result;
}

/* -1: a member is no bytes object. */
static int64_t batch_bytes(PyObject **members, Py_ssize_t count) {
    int64_t bytes = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!PyBytes_Check(members[i])) {
            PyErr_SetString(PyExc_TypeError, "a batch is a sequence of bytes");
            return -1;
        }
        bytes += 4 + PyBytes_GET_SIZE(members[i]);
    }
    return bytes;
}

static void copy_batch(unsigned char *body, PyObject **members, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t length = (uint32_t)PyBytes_GET_SIZE(members[i]);
        memcpy(body, &length, sizeof length);
        memcpy(body + 4, PyBytes_AS_STRING(members[i]), length);
        body += 4 + length;
    }
}

PyObject *Ring_send_batch(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"target", "payloads", "timeout_us", NULL};
    unsigned long target;
    PyObject *payloads;
    long long timeout_us = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "kO|L:send_batch", names, &target, &payloads, &timeout_us)) {
        return NULL;
    }
    /* A tuple of our own: another thread may change the caller's list while this one waits for room. */
    PyObject *own = face_is_usable(self) && is_target(target) ? PySequence_Tuple(payloads) : NULL;
    if (own == NULL) {
        return NULL;
    }
    PyObject **members = &PyTuple_GET_ITEM(own, 0), *result = NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(own);
    int64_t bytes = batch_bytes(members, count);
    struct ring_ticket ticket;
    if (count == 0) {
        result = Py_NewRef(Py_True); /* nothing to send, and a claim of nothing could never be ended */
    } else if (bytes >= 0 && fits(self, (uint64_t)bytes, true)) {
        int reserved = reserve(self, ring_units_for((uint64_t)bytes), timeout_us, &ticket);
        if (reserved == 1) {
            copy_batch(ticket.body, members, count);
            ring_publish(&self->ring, &ticket, (uint32_t)target, (uint32_t)bytes, RING_BATCH);
        }
        result = reserved == -1 ? NULL : PyBool_FromLong(reserved);
    }
    Py_DECREF(own);
    return result;
}

/* The record of a side file takes a quarter of the ring although it needs one unit: that bounds how many large messages
 * lie in shared memory at a time. */
static PyObject *send_side(Ring *self, unsigned long target, Py_buffer *payload, long long timeout_us) {
    struct ring_ticket ticket;
    struct ring_side side;
    if (!face_is_usable(self) || !is_target(target)) {
        return NULL;
    }
    if ((uint64_t)payload->len > FACE_SIDE_BYTES_MAX) {
        return PyErr_Format(PyExc_ValueError, "a message of %zd bytes is larger than the bound of 1 GiB", payload->len);
    }
    uint32_t length = (uint32_t)face_message_bytes_max(self);
    int reserved = reserve(self, ring_units_for(length), timeout_us, &ticket);
    if (reserved != 1) {
        return reserved == -1 ? NULL : Py_NewRef(Py_False);
    }
    self->users++;
    int result;
    Py_BEGIN_ALLOW_THREADS;
    result = ring_side_write(self->folder, &side, payload->buf, (uint64_t)payload->len);
    Py_END_ALLOW_THREADS;
    if (result == 0) {
        memcpy(ticket.body, &side, sizeof side);
        ring_publish(&self->ring, &ticket, (uint32_t)target, length, RING_SIDE);
    } else {
        ring_abandon(&self->ring, &ticket);
        face_raise(errno, "the side file of a large message cannot be written", self->path);
    }
    face_end_use(self);
    return result == 0 ? Py_NewRef(Py_True) : NULL;
}

PyObject *Ring_send_large(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"target", "payload", "timeout_us", NULL};
    unsigned long target;
    Py_buffer payload;
    long long timeout_us;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ky*L:send_large", names, &target, &payload, &timeout_us)) {
        return NULL;
    }
    PyObject *result = send_side(self, target, &payload, timeout_us);
    PyBuffer_Release(&payload);
    return result;
}
