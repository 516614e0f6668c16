/*
 * What the files of the Python face share: the object behind tailrace.transport._ring.Ring and the checks every call begins
 * with. ringmodule.c has the type and its life, ring_face_send.c, ring_face_receive.c and ring_face_wait.c its calls,
 * ring_face_span.c the bytes it lends out.
 */
#ifndef TAILRACE_RING_FACE_H
#define TAILRACE_RING_FACE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ring.h"

#define FACE_SIGNAL_SLICE_US 100000 /* how long a wait may go without looking for Python signals */
#define FACE_BORROWED_MAX 64      /* records lent out at a time; what comes beyond is copied */
#define FACE_BORROW_BYTES_MIN 4096 /* copying less than this costs less than lending it */
#define FACE_SIDE_BYTES_MAX (UINT64_C(1) << 30)

typedef struct {
    PyObject_HEAD
    struct ring ring;
    PyObject *path;
    int folder;    /* where side files lie */
    int stop;      /* eventfd that ends watch_fd */
    int lent;      /* memoryviews of this mapping that someone still holds; they too keep a closed ring mapped */
    int users;     /* calls under way without the GIL; the last one out unmaps a closed ring */
    bool closed;
    bool consuming;
    unsigned forks;
    uint64_t taken_count, taken_bytes, largest_bytes; /* of the records received since they were last asked for */
    int borrowed_count;
    uint64_t borrowed[FACE_BORROWED_MAX]; /* records whose bytes a caller reads where they lie */
} Ring;

/* These set a Python error where they return NULL or false. */
PyObject *face_raise(int error, const char *why, PyObject *path);
bool face_is_usable(Ring *self);
bool face_begin_consuming(Ring *self);
void face_end_use(Ring *self);
void face_end_lending(Ring *self);
void face_end_borrowing(Ring *self);
int face_wait(Ring *self, long long timeout_us, bool patient);
uint64_t face_message_bytes_max(const Ring *self);

PyObject *Ring_post(Ring *self, PyObject *const *args, Py_ssize_t count);

PyObject *Ring_receive(Ring *self, PyObject *const *args, Py_ssize_t count);
PyObject *Ring_end_borrowing(Ring *self, PyObject *unused);
PyObject *Ring_tally(Ring *self, PyObject *unused);
PyObject *Ring_borrow(Ring *self, PyObject *const *args, Py_ssize_t count);

bool span_type_ready(void);
PyObject *span_of(Ring *self, const unsigned char *bytes, uint32_t length);

PyObject *Ring_wait(Ring *self, PyObject *arg);
PyObject *Ring_wakeup(Ring *self, PyObject *unused);
PyObject *Ring_watch_fd(Ring *self, PyObject *arg);
PyObject *Ring_stop_watching(Ring *self, PyObject *unused);
PyObject *Ring_set_waiting(Ring *self, PyObject *args, PyObject *kwargs);

#endif
