/*
 * The waiting calls of the Python face: sleeping on the ring, its wakeups, and sockets that wake it. The GIL is released while
 * waiting, and Python's signal handlers run in between.
 */
#include "ring_face.h"

#include <errno.h>
#include <unistd.h>

/* 1: news; 0: time is up or the ring was closed meanwhile; -1: error set. Below 0 waits for ever. */
int face_wait(Ring *self, long long timeout_us, bool patient) {
    face_end_borrowing(self); /* or a producer could wait for the room that a sleeper holds */
    ring_set_patient(&self->ring, patient);
    int64_t deadline_us = timeout_us < 0 ? INT64_MAX : ring_now_us() + timeout_us;
    for (;;) {
        int news;
        self->users++;
        self->consuming = true;
        Py_BEGIN_ALLOW_THREADS;
        int64_t slice_us = ring_now_us() + FACE_SIGNAL_SLICE_US;
        news = ring_wait(&self->ring, deadline_us < slice_us ? deadline_us : slice_us);
        Py_END_ALLOW_THREADS;
        self->consuming = false;
        face_end_use(self);
        if (news == 1 || self->closed) {
            return news == 1 && !self->closed;
        }
        if (PyErr_CheckSignals() == -1) {
            return -1;
        }
        if (ring_now_us() >= deadline_us) {
            return 0;
        }
    }
}

PyObject *Ring_wait(Ring *self, PyObject *arg) {
    long long timeout_us = PyLong_AsLongLong(arg);
    if (PyErr_Occurred() || !face_begin_consuming(self)) {
        return NULL;
    }
    int news = face_wait(self, timeout_us, false);
    return news == -1 ? NULL : PyBool_FromLong(news);
}

PyObject *Ring_wakeup(Ring *self, PyObject *unused) {
    (void)unused;
    if (!face_is_usable(self)) {
        return NULL;
    }
    ring_wakeup(&self->ring);
    Py_RETURN_NONE;
}

PyObject *Ring_watch_fd(Ring *self, PyObject *arg) {
    int epoll_fd = PyObject_AsFileDescriptor(arg), result, error;
    if (epoll_fd == -1 || !face_is_usable(self)) {
        return NULL;
    }
    do {
        self->users++;
        Py_BEGIN_ALLOW_THREADS;
        result = ring_watch(&self->ring, epoll_fd, self->stop);
        error = errno;
        Py_END_ALLOW_THREADS;
        face_end_use(self);
    } while (result == -1 && error == EINTR && !self->closed && PyErr_CheckSignals() == 0);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (result == -1 && !self->closed) {
        return face_raise(error, "the epoll set cannot be watched", self->path);
    }
    Py_RETURN_NONE;
}

PyObject *Ring_stop_watching(Ring *self, PyObject *unused) {
    (void)unused;
    if (!face_is_usable(self)) {
        return NULL;
    }
    (void)!write(self->stop, &(uint64_t){1}, sizeof(uint64_t));
    Py_RETURN_NONE;
}

PyObject *Ring_set_waiting(Ring *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"strategy", "spin_us", NULL};
    int strategy;
    long long spin_us = 1000;
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
