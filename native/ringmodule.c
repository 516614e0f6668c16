/*
 * tailrace.transport._ring: the Python face of the ring, one type with the calls of ring.h. Used by tailrace/transport only.
 * This file has the type, how an object comes and goes, and the figures it shows.
 */
#include "ring_face.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static unsigned fork_count;

static void count_fork(void) { fork_count++; }

PyObject *face_raise(int error, const char *why, PyObject *path) {
    PyObject *args = Py_BuildValue("(isO)", error, why, path);
    if (args != NULL) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
    }
    return NULL;
}

/* A forked child is a peer of its own; the claims and reservations of its parent stay the parent's. */
bool face_is_usable(Ring *self) {
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
        face_raise(EMFILE, "the ring has no place for another process", self->path);
        return false;
    }
    self->forks = fork_count;
    return true;
}

bool face_begin_consuming(Ring *self) {
    if (!face_is_usable(self)) {
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

static void unmap_if_idle(Ring *self) {
    if (self->closed && self->users == 0 && self->lent == 0) {
        unmap(self);
    }
}

void face_end_use(Ring *self) {
    self->users--;
    unmap_if_idle(self);
}

void face_end_lending(Ring *self) {
    self->lent--;
    unmap_if_idle(self);
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

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
        face_raise(errno, why, path);
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
        } else {
            face_end_borrowing(self);
        }
        unmap_if_idle(self);
        if (self->users > 0) {
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

/* ---- what it shows ---------------------------------------------------------------------------------------------- */

uint64_t face_message_bytes_max(const Ring *self) {
    return RING_BODY_OF(atomic_load(&self->ring.file->wrap_units)) / 4 / RING_UNIT * RING_UNIT;
}

static PyObject *Ring_resize(Ring *self, PyObject *arg) {
    unsigned long long bytes = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred() || !face_is_usable(self)) {
        return NULL;
    }
    if (ring_resize(&self->ring, bytes) == -1) {
        return face_raise(errno, "shared memory has no room for a larger ring", self->path);
    }
    Py_RETURN_NONE;
}

enum figure {
    RING_BYTES,
    RING_BYTES_MAX,
    MAX_MESSAGE_BYTES,
    USED_BYTES,
    FULL_COUNT,
    SKIPPED_COUNT,
    RELEASED_COUNT,
    WAKEUPS,
    PENDING
};

static PyObject *Ring_figure(Ring *self, void *which) {
    if (!face_is_usable(self)) {
        return NULL;
    }
    struct ring *r = &self->ring;
    switch ((enum figure)(intptr_t)which) {
    case RING_BYTES:
        return PyLong_FromSize_t(RING_BODY_OF(atomic_load(&r->file->wrap_units)));
    case RING_BYTES_MAX:
        return PyLong_FromSize_t(RING_BODY_OF(r->arena_units));
    case MAX_MESSAGE_BYTES:
        return PyLong_FromUnsignedLongLong(face_message_bytes_max(self));
    case USED_BYTES:
        return PyLong_FromSize_t(RING_BODY_OF(ring_used_units(r)));
    case FULL_COUNT:
        return PyLong_FromUnsignedLongLong(atomic_load(&r->file->full_count));
    case SKIPPED_COUNT:
        return PyLong_FromUnsignedLongLong(atomic_load(&r->file->skipped_count));
    case RELEASED_COUNT:
        return PyLong_FromUnsignedLongLong(atomic_load(&r->file->released_count));
    case WAKEUPS:
        return PyLong_FromUnsignedLong(atomic_load(&r->file->wakeups));
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
    FIGURE("wakeups", WAKEUPS),
    FIGURE("pending_records", PENDING),
    {"path", (getter)Ring_path, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define CALL(name, function, flags) {name, (PyCFunction)(void (*)(void))(function), flags, NULL}
static PyMethodDef ring_methods[] = {
    CALL("create", Ring_create, METH_VARARGS | METH_KEYWORDS | METH_STATIC),
    CALL("attach", Ring_attach, METH_O | METH_STATIC),
    CALL("close", Ring_close, METH_NOARGS),
    CALL("post", Ring_post, METH_FASTCALL),
    CALL("receive", Ring_receive, METH_FASTCALL),
    CALL("borrow", Ring_borrow, METH_FASTCALL),
    CALL("end_borrowing", Ring_end_borrowing, METH_NOARGS),
    CALL("tally", Ring_tally, METH_NOARGS),
    CALL("wait", Ring_wait, METH_O),
    CALL("wakeup", Ring_wakeup, METH_NOARGS),
    CALL("watch_fd", Ring_watch_fd, METH_O),
    CALL("stop_watching", Ring_stop_watching, METH_NOARGS),
    CALL("set_waiting", Ring_set_waiting, METH_VARARGS | METH_KEYWORDS),
    CALL("resize", Ring_resize, METH_O),
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ring_slots[] = {
    {Py_tp_doc, "One ring of shared memory: many producers, one consumer."},
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
    if (module == NULL || ring_type == NULL || !span_type_ready() || PyModule_AddObjectRef(module, "Ring", (PyObject *)ring_type) == -1 ||
        PyModule_AddObjectRef(module, "HAVE_FUTEX", Py_True) == -1) {
        Py_XDECREF(module);
        return NULL;
    }
    pthread_atfork(NULL, NULL, count_fork);
    return module;
}
