/*
 * The sending calls of the Python face: one message in the ring, or, if it is large, by a side file. The GIL is held
 * while bytes are copied into the ring and released while there is no room.
 */
#include "ring_face.h"

#include <errno.h>
#include <string.h>

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
    if (!is_target(target)) {
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

/* The record of a side file takes a quarter of the ring although it needs one unit: that bounds how many large messages
 * lie in shared memory at a time. */
static PyObject *send_side(Ring *self, unsigned long target, Py_buffer *payload, long long timeout_us) {
    struct ring_ticket ticket;
    struct ring_side side;
    if (!is_target(target)) {
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

/* Sends a message of any size, the large ones by a side file. The hot call: no argument tuple, no keywords. */
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
