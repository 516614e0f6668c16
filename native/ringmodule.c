/*
 * tailrace.transport._ring: the Python face of the ring, one type with the calls of ring.h. Used by tailrace/transport/ring.py
 * only. It holds the GIL while it copies, releases it while it waits, and turns C results into Python errors.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SIGNAL_SLICE_US 100000 /* how long a wait may go without looking for Python signals */
#define SIDE_BYTES_MAX (UINT64_C(1) << 30)

typedef struct {
    PyObject_HEAD
    struct ring ring;
    PyObject *path;
    int folder;    /* where side files lie */
    int stop;      /* eventfd that ends watch_fd */
    int users;     /* calls under way without the GIL; the last one out unmaps a closed ring */
    bool closed;
    bool consuming;
    unsigned forks;
} Ring;

static unsigned fork_count;

static void count_fork(void) { fork_count++; }

static PyObject *raise_os(int error, const char *why, PyObject *path) {
    PyObject *args = Py_BuildValue("(isO)", error, why, path);
    if (args != NULL) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
    }
    return NULL;
}

/* A forked child is a peer of its own; the claims and reservations of its parent stay the parent's. */
static bool is_usable(Ring *self) {
    if (self->closed) {
        PyErr_SetString(PyExc_ValueError, "the ring is closed");
        return false;
    }
    if (self->forks == fork_count) {
        return true;
    }
    self->users = 0;
    self->consuming = false;
    self->ring.right = atomic_load(&self->ring.file->left);
    self->ring.hole_count = 0;
    if (ring_join(&self->ring) != RING_OK) {
        raise_os(EMFILE, "the ring has no place for another process", self->path);
        return false;
    }
    self->forks = fork_count;
    return true;
}

static bool begin_consuming(Ring *self) {
    if (!is_usable(self)) {
        return false;
    }
    if (self->consuming) {
        PyErr_SetString(PyExc_RuntimeError, "two threads consume through one Ring; attach once per consuming thread");
        return false;
    }
    return true;
}

static void unmap(Ring *self) {
    if (self->ring.file != NULL) {
        ring_unmap(&self->ring);
        close(self->folder);
        close(self->stop);
    }
}

static void end_use(Ring *self) {
    self->users--;
    if (self->closed && self->users == 0) {
        unmap(self);
    }
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static int open_folder_of(const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (length >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, path, length);
    folder[length] = '\0';
    return open(length == 0 ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static PyObject *new_ring(PyObject *path, bool create, uint64_t ring_bytes, uint64_t ring_bytes_max, PyTypeObject *type) {
    const char *name = PyUnicode_AsUTF8(path);
    Ring *self = name == NULL ? NULL : (Ring *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    char why[160] = "the ring's folder cannot be opened";
    self->path = Py_NewRef(path);
    self->forks = fork_count;
    self->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    self->folder = open_folder_of(name);
    int result = self->folder == -1 || self->stop == -1 ? -1
                 : create ? ring_create(&self->ring, name, ring_bytes, ring_bytes_max, why, sizeof why)
                          : ring_attach(&self->ring, name, why, sizeof why);
    if (result == 0) {
        return (PyObject *)self;
    }
    if (create && errno == EINVAL) {
        PyErr_SetString(PyExc_ValueError, why);
    } else {
        raise_os(errno, why, path);
    }
    if (self->stop != -1) {
        close(self->stop);
    }
    if (self->folder != -1) {
        close(self->folder);
    }
    self->ring.file = NULL;
    Py_DECREF(self);
    return NULL;
}

static PyTypeObject *ring_type;

static PyObject *Ring_create(PyObject *unused, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", "ring_bytes", "ring_bytes_max", NULL};
    PyObject *path;
    unsigned long long bytes, bytes_max = 0;
    (void)unused;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UK|K:create", names, &path, &bytes, &bytes_max)) {
        return NULL;
    }
    return new_ring(path, true, bytes, bytes_max == 0 ? bytes : bytes_max, ring_type);
}

static PyObject *Ring_attach(PyObject *unused, PyObject *path) {
    (void)unused;
    if (!PyUnicode_Check(path)) {
        PyErr_SetString(PyExc_TypeError, "path must be a str");
        return NULL;
    }
    return new_ring(path, false, 0, 0, ring_type);
}

static PyObject *Ring_close(Ring *self, PyObject *unused) {
    (void)unused;
    if (!self->closed) {
        self->closed = true;
        if (self->forks != fork_count) {
            self->users = 0;
        }
        if (self->users == 0) {
            unmap(self);
        } else {
            atomic_store(&self->ring.closing, 1);
            (void)!write(self->stop, &(uint64_t){1}, sizeof(uint64_t));
            ring_wake_consumers(&self->ring);
            ring_wake_producers(&self->ring, true);
        }
    }
    Py_RETURN_NONE;
}

static void Ring_dealloc(Ring *self) {
    PyTypeObject *type = Py_TYPE(self);
    unmap(self);
    Py_XDECREF(self->path);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static uint64_t message_bytes_max(const Ring *self) {
    return RING_BODY_OF(atomic_load(&self->ring.file->wrap_units)) / 4 / RING_UNIT * RING_UNIT;
}

static bool fits(const Ring *self, uint64_t length, bool batch) {
    if (length <= message_bytes_max(self)) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "a %s of %llu bytes is larger than max_message_bytes, %llu", batch ? "batch" : "message",
                 (unsigned long long)length, (unsigned long long)message_bytes_max(self));
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
        int64_t slice_us = ring_now_us() + SIGNAL_SLICE_US;
        result = ring_reserve_wait(&self->ring, units, ticket, deadline_us < slice_us ? deadline_us : slice_us);
        Py_END_ALLOW_THREADS;
        bool closed = self->closed;
        if (result == RING_OK && closed) {
            ring_abandon(&self->ring, ticket);
        }
        end_use(self);
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

static PyObject *send_plain(Ring *self, unsigned long target, Py_buffer *payload, long long timeout_us) {
    struct ring_ticket ticket;
    if (!is_usable(self) || !is_target(target) || !fits(self, (uint64_t)payload->len, false)) {
        return NULL;
    }
    int reserved = reserve(self, ring_units_for((uint64_t)payload->len), timeout_us, &ticket);
    if (reserved == 1) {
        memcpy(ticket.body, payload->buf, (size_t)payload->len);
        ring_publish(&self->ring, &ticket, (uint32_t)target, (uint32_t)payload->len, RING_PLAIN);
    }
    return reserved == -1 ? NULL : PyBool_FromLong(reserved);
}

/* The hot call: no argument tuple, no keywords. */
static PyObject *Ring_try_send(Ring *self, PyObject *const *args, Py_ssize_t count) {
    Py_buffer payload;
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "try_send takes target and payload, got %zd arguments", count);
    }
    unsigned long target = PyLong_AsUnsignedLong(args[0]);
    if (PyErr_Occurred() || PyObject_GetBuffer(args[1], &payload, PyBUF_SIMPLE) == -1) {
        return NULL;
    }
    PyObject *result = send_plain(self, target, &payload, 0);
    PyBuffer_Release(&payload);
    return result;
}

static PyObject *Ring_send(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"target", "payload", "timeout_us", NULL};
    unsigned long target;
    Py_buffer payload;
    long long timeout_us;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ky*L:send", names, &target, &payload, &timeout_us)) {
        return NULL;
    }
    PyObject *result = send_plain(self, target, &payload, timeout_us);
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

static PyObject *Ring_send_batch(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"target", "payloads", "timeout_us", NULL};
    unsigned long target;
    PyObject *payloads;
    long long timeout_us = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "kO|L:send_batch", names, &target, &payloads, &timeout_us)) {
        return NULL;
    }
    /* A tuple of our own: another thread may change the caller's list while this one waits for room. */
    PyObject *own = is_usable(self) && is_target(target) ? PySequence_Tuple(payloads) : NULL;
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
    if (!is_usable(self) || !is_target(target)) {
        return NULL;
    }
    if ((uint64_t)payload->len > SIDE_BYTES_MAX) {
        return PyErr_Format(PyExc_ValueError, "a message of %zd bytes is larger than the bound of 1 GiB", payload->len);
    }
    uint32_t length = (uint32_t)message_bytes_max(self);
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
        raise_os(errno, "the side file of a large message cannot be written", self->path);
    }
    end_use(self);
    return result == 0 ? Py_NewRef(Py_True) : NULL;
}

static PyObject *Ring_send_large(Ring *self, PyObject *args, PyObject *kwargs) {
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

/* ---- receiving ------------------------------------------------------------------------------------------------- */

static PyObject *read_side(Ring *self, const struct ring_view *view) {
    struct ring_side side;
    if (view->length < sizeof side) {
        return raise_os(EBADMSG, "the record of a side file is too short", self->path);
    }
    memcpy(&side, view->body, sizeof side);
    if (side.bytes > SIDE_BYTES_MAX) {
        return raise_os(EBADMSG, "the record of a side file is damaged", self->path);
    }
    PyObject *payload = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)side.bytes);
    if (payload != NULL && ring_side_read(self->folder, &side, PyBytes_AS_STRING(payload)) == -1) {
        Py_CLEAR(payload);
        raise_os(errno, "the side file of a large message cannot be read", self->path);
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
            raise_os(EBADMSG, "the inner lengths of a batch exceed its record", self->path);
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

/* Takes up to `records_max` ready records; without tokens they are finished at once. What was already taken is returned even if a
 * later record fails: that one is given back and fails again when it is alone. */
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
        raise_os(EBADMSG, "a record's tag or length does not fit its place: the ring is damaged", self->path);
    }
    ring_advance_left(&self->ring);
    ring_maintain(&self->ring, ring_now_us());
    return list;
}

static PyObject *Ring_recv(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"max_records", NULL};
    Py_ssize_t records_max = 64;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:recv", names, &records_max) || !begin_consuming(self)) {
        return NULL;
    }
    return take_records(self, records_max, false);
}

static PyObject *Ring_claim(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"max_records", NULL};
    Py_ssize_t records_max = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:claim", names, &records_max) || !begin_consuming(self)) {
        return NULL;
    }
    return take_records(self, records_max, true);
}

static PyObject *end_claim(Ring *self, PyObject *token, bool done) {
    unsigned long long seq = PyLong_AsUnsignedLongLong(token);
    if (PyErr_Occurred() || !is_usable(self)) {
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

static PyObject *Ring_done(Ring *self, PyObject *token) { return end_claim(self, token, true); }

static PyObject *Ring_give_back(Ring *self, PyObject *token) { return end_claim(self, token, false); }

/* ---- waiting --------------------------------------------------------------------------------------------------- */

static PyObject *Ring_wait(Ring *self, PyObject *arg) {
    long long timeout_us = PyLong_AsLongLong(arg);
    if (PyErr_Occurred() || !begin_consuming(self)) {
        return NULL;
    }
    int64_t deadline_us = timeout_us < 0 ? INT64_MAX : ring_now_us() + timeout_us;
    for (;;) {
        int news;
        self->users++;
        self->consuming = true;
        Py_BEGIN_ALLOW_THREADS;
        int64_t slice_us = ring_now_us() + SIGNAL_SLICE_US;
        news = ring_wait(&self->ring, deadline_us < slice_us ? deadline_us : slice_us);
        Py_END_ALLOW_THREADS;
        self->consuming = false;
        end_use(self);
        if (news == 1 || self->closed) {
            return PyBool_FromLong(news == 1);
        }
        if (PyErr_CheckSignals() == -1) {
            return NULL;
        }
        if (ring_now_us() >= deadline_us) {
            Py_RETURN_FALSE;
        }
    }
}

static PyObject *Ring_bell(Ring *self, PyObject *unused) {
    (void)unused;
    if (!is_usable(self)) {
        return NULL;
    }
    ring_bell(&self->ring);
    Py_RETURN_NONE;
}

static PyObject *Ring_watch_fd(Ring *self, PyObject *arg) {
    int epoll_fd = PyObject_AsFileDescriptor(arg), result, error;
    if (epoll_fd == -1 || !is_usable(self)) {
        return NULL;
    }
    do {
        self->users++;
        Py_BEGIN_ALLOW_THREADS;
        result = ring_watch(&self->ring, epoll_fd, self->stop);
        error = errno;
        Py_END_ALLOW_THREADS;
        end_use(self);
    } while (result == -1 && error == EINTR && !self->closed && PyErr_CheckSignals() == 0);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (result == -1 && !self->closed) {
        return raise_os(error, "the epoll set cannot be watched", self->path);
    }
    Py_RETURN_NONE;
}

static PyObject *Ring_stop_watching(Ring *self, PyObject *unused) {
    (void)unused;
    if (!is_usable(self)) {
        return NULL;
    }
    (void)!write(self->stop, &(uint64_t){1}, sizeof(uint64_t));
    Py_RETURN_NONE;
}

static PyObject *Ring_set_waiting(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"strategy", "spin_us", NULL};
    int strategy;
    long long spin_us = 50;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i|L:set_waiting", names, &strategy, &spin_us)) {
        return NULL;
    }
    if (strategy < RING_WAIT_FUTEX || strategy > RING_WAIT_BUSY || spin_us < 0) {
        PyErr_SetString(PyExc_ValueError, "strategy is 0 (futex), 1 (spin, then futex) or 2 (busy), spin_us at least 0");
        return NULL;
    }
    self->ring.strategy = (enum ring_wait_strategy)strategy;
    self->ring.spin_us = spin_us;
    Py_RETURN_NONE;
}

static PyObject *Ring_resize(Ring *self, PyObject *arg) {
    unsigned long long bytes = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred() || !is_usable(self)) {
        return NULL;
    }
    if (ring_resize(&self->ring, bytes) == -1) {
        return raise_os(errno, "shared memory has no room for a larger ring", self->path);
    }
    Py_RETURN_NONE;
}

/* ---- what it shows --------------------------------------------------------------------------------------------- */

enum figure { RING_BYTES, RING_BYTES_MAX, MAX_MESSAGE_BYTES, USED_BYTES, FULL_COUNT, SKIPPED_COUNT, RELEASED_COUNT, PENDING };

static PyObject *Ring_figure(Ring *self, void *which) {
    if (!is_usable(self)) {
        return NULL;
    }
    struct ring *r = &self->ring;
    switch ((enum figure)(intptr_t)which) {
    case RING_BYTES:
        return PyLong_FromSize_t(RING_BODY_OF(atomic_load(&r->file->wrap_units)));
    case RING_BYTES_MAX:
        return PyLong_FromSize_t(RING_BODY_OF(r->arena_units));
    case MAX_MESSAGE_BYTES:
        return PyLong_FromUnsignedLongLong(message_bytes_max(self));
    case USED_BYTES:
        return PyLong_FromSize_t(RING_BODY_OF(ring_used_units(r)));
    case FULL_COUNT:
        return PyLong_FromUnsignedLongLong(atomic_load(&r->file->full_count));
    case SKIPPED_COUNT:
        return PyLong_FromUnsignedLongLong(atomic_load(&r->file->skipped_count));
    case RELEASED_COUNT:
        return PyLong_FromUnsignedLongLong(atomic_load(&r->file->released_count));
    default:
        return PyLong_FromUnsignedLongLong(ring_frontier(r) - atomic_load(&r->file->left));
    }
}

static PyObject *Ring_path(Ring *self, void *unused) {
    (void)unused;
    return Py_NewRef(self->path);
}

#define FIGURE(name, which) {name, (getter)Ring_figure, NULL, NULL, (void *)(intptr_t)(which)}
static PyGetSetDef ring_figures[] = {
    FIGURE("ring_bytes", RING_BYTES),
    FIGURE("ring_bytes_max", RING_BYTES_MAX),
    FIGURE("max_message_bytes", MAX_MESSAGE_BYTES),
    FIGURE("used_bytes", USED_BYTES),
    FIGURE("full_count", FULL_COUNT),
    FIGURE("skipped_count", SKIPPED_COUNT),
    FIGURE("released_count", RELEASED_COUNT),
    FIGURE("pending_records", PENDING),
    {"path", (getter)Ring_path, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define CALL(name, function, flags) {name, (PyCFunction)(void (*)(void))(function), flags, NULL}
static PyMethodDef ring_methods[] = {
    CALL("create", Ring_create, METH_VARARGS | METH_KEYWORDS | METH_STATIC),
    CALL("attach", Ring_attach, METH_O | METH_STATIC),
    CALL("close", Ring_close, METH_NOARGS),
    CALL("try_send", Ring_try_send, METH_FASTCALL),
    CALL("send", Ring_send, METH_VARARGS | METH_KEYWORDS),
    CALL("send_batch", Ring_send_batch, METH_VARARGS | METH_KEYWORDS),
    CALL("send_large", Ring_send_large, METH_VARARGS | METH_KEYWORDS),
    CALL("recv", Ring_recv, METH_VARARGS | METH_KEYWORDS),
    CALL("claim", Ring_claim, METH_VARARGS | METH_KEYWORDS),
    CALL("done", Ring_done, METH_O),
    CALL("give_back", Ring_give_back, METH_O),
    CALL("wait", Ring_wait, METH_O),
    CALL("bell", Ring_bell, METH_NOARGS),
    CALL("watch_fd", Ring_watch_fd, METH_O),
    CALL("stop_watching", Ring_stop_watching, METH_NOARGS),
    CALL("set_waiting", Ring_set_waiting, METH_VARARGS | METH_KEYWORDS),
    CALL("resize", Ring_resize, METH_O),
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ring_slots[] = {
    {Py_tp_doc, "One ring of shared memory: many producers, one consumer or several that claim."},
    {Py_tp_dealloc, Ring_dealloc},
    {Py_tp_methods, ring_methods},
    {Py_tp_getset, ring_figures},
    {0, NULL},
};

static PyType_Spec ring_spec = {
    .name = "tailrace.transport._ring.Ring",
    .basicsize = sizeof(Ring),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = ring_slots,
};

static PyModuleDef ring_module = {PyModuleDef_HEAD_INIT, .m_name = "_ring", .m_size = -1};

PyMODINIT_FUNC PyInit__ring(void) {
    PyObject *module = PyModule_Create(&ring_module);
    ring_type = (PyTypeObject *)PyType_FromSpec(&ring_spec);
    if (module == NULL || ring_type == NULL || PyModule_AddObjectRef(module, "Ring", (PyObject *)ring_type) == -1 ||
        PyModule_AddObjectRef(module, "HAVE_FUTEX", Py_True) == -1) {
        Py_XDECREF(module);
        return NULL;
    }
    pthread_atfork(NULL, NULL, count_fork);
    return module;
}
