/*
 * Bytes of the ring lent to Python without copying them: what stands behind the memoryviews that Ring.borrow gives. A span
 * keeps the mapping alive for as long as anyone holds it; what it shows is the record only until the next call that waits
 * or takes, afterwards whatever has been written there.
 */
#include "ring_face.h"

typedef struct {
    PyObject_HEAD
    Ring *ring;
    const unsigned char *bytes;
    Py_ssize_t length;
} Span;

static int Span_getbuffer(Span *self, Py_buffer *view, int flags) {
    return PyBuffer_FillInfo(view, (PyObject *)self, (void *)self->bytes, self->length, 1, flags);
}

static void Span_dealloc(Span *self) {
    PyTypeObject *type = Py_TYPE(self);
    face_end_lending(self->ring);
    Py_DECREF(self->ring);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot span_slots[] = {
    {Py_tp_dealloc, Span_dealloc},
    {Py_bf_getbuffer, Span_getbuffer},
    {0, NULL},
};

static PyType_Spec span_spec = {
    .name = "tailrace.transport._ring.Span",
    .basicsize = sizeof(Span),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = span_slots,
};

static PyTypeObject *span_type;

bool span_type_ready(void) {
    span_type = (PyTypeObject *)PyType_FromSpec(&span_spec);
    return span_type != NULL;
}

/* A read-only memoryview of bytes in the mapping. */
PyObject *span_of(Ring *self, const unsigned char *bytes, uint32_t length) {
    Span *span = (Span *)span_type->tp_alloc(span_type, 0);
    if (span == NULL) {
        return NULL;
    }
    span->ring = (Ring *)Py_NewRef(self);
    span->bytes = bytes;
    span->length = length;
    self->lent++;
    PyObject *view = PyMemoryView_FromObject((PyObject *)span);
    Py_DECREF(span);
    return view;
}
