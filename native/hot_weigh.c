/* What values take in memory, estimated: queues are bounded in bytes by it. tailrace/hot.py has the same in Python.
 *
 * Strings, bytes and numbers are exact. Long containers are sampled and scaled, other objects are asked for their size
 * and followed as the collector follows them, a few steps deep and for so many objects at most: a value may hang on to
 * all the world. An object that two values share counts twice.
 */
#include "hot.h"

#define DEPTH_MAX 4
#define SAMPLES 16
#define VISITS_MAX 64

/* What every object has besides, and what a slot of a container takes. */
#define NUMBER_BYTES 32
#define TEXT_BYTES 56
#define BYTES_BYTES 40
#define CONTAINER_BYTES 64
#define PLACE_BYTES 8
#define ENTRY_BYTES 40

typedef struct {
    int depth;
    int visits_left;
    uint64_t bytes;
} Walk;

static uint64_t weigh_one(PyObject *value, int depth, int *visits_left);

static uint64_t weigh_places(PyObject **places, Py_ssize_t count, int depth, int *visits_left)
{
    Py_ssize_t step = count > SAMPLES ? count / SAMPLES : 1, taken = 0;
    uint64_t bytes = 0;
    for (Py_ssize_t at = 0; at < count && taken < SAMPLES; at += step, taken++) {
        bytes += weigh_one(places[at], depth, visits_left);
    }
    return CONTAINER_BYTES + (uint64_t)count * PLACE_BYTES + (taken ? bytes * (uint64_t)count / (uint64_t)taken : 0);
}

static uint64_t weigh_dict(PyObject *value, int depth, int *visits_left)
{
    Py_ssize_t at = 0, count = PyDict_GET_SIZE(value), taken = 0;
    PyObject *key, *item;
    uint64_t bytes = 0;
    while (taken < SAMPLES && PyDict_Next(value, &at, &key, &item)) {
        bytes += weigh_one(key, depth, visits_left) + weigh_one(item, depth, visits_left);
        taken++;
    }
    return CONTAINER_BYTES + (uint64_t)count * ENTRY_BYTES + (taken ? bytes * (uint64_t)count / (uint64_t)taken : 0);
}

static int visit(PyObject *child, void *arg)
{
    Walk *walk = arg;
    if (walk->visits_left <= 0) {
        return 1;
    }
    if (!PyType_Check(child) && !PyModule_Check(child) && !PyFunction_Check(child)) {
        walk->bytes += weigh_one(child, walk->depth, &walk->visits_left);
    }
    return 0;
}

/* Any other object: what it says of itself, and what it refers to. */
static uint64_t weigh_object(PyObject *value, int depth, int *visits_left)
{
    Walk walk = {depth, *visits_left, NUMBER_BYTES};
    PyObject *said = PyObject_CallMethod(value, "__sizeof__", NULL);
    if (said != NULL && PyLong_Check(said)) {
        size_t size = PyLong_AsSize_t(said);
        walk.bytes = PyErr_Occurred() ? NUMBER_BYTES : size;
    }
    Py_XDECREF(said);
    PyErr_Clear(); /* a user's object may say anything */
    if (PyType_IS_GC(Py_TYPE(value)) && Py_TYPE(value)->tp_traverse != NULL) {
        Py_TYPE(value)->tp_traverse(value, visit, &walk);
    }
    *visits_left = walk.visits_left;
    return walk.bytes;
}

static uint64_t weigh_one(PyObject *value, int depth, int *visits_left)
{
    if (PyUnicode_CheckExact(value)) {
        return TEXT_BYTES + (uint64_t)PyUnicode_GET_LENGTH(value) * PyUnicode_KIND(value);
    }
    if (PyBytes_CheckExact(value)) {
        return BYTES_BYTES + (uint64_t)PyBytes_GET_SIZE(value);
    }
    if (value == Py_None || PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) ||
        depth >= DEPTH_MAX || --*visits_left <= 0) {
        return NUMBER_BYTES;
    }
    if (PyTuple_CheckExact(value)) {
        return weigh_places(((PyTupleObject *)value)->ob_item, PyTuple_GET_SIZE(value), depth + 1, visits_left);
    }
    if (PyList_CheckExact(value)) {
        return weigh_places(((PyListObject *)value)->ob_item, PyList_GET_SIZE(value), depth + 1, visits_left);
    }
    return PyDict_CheckExact(value) ? weigh_dict(value, depth + 1, visits_left)
                                    : weigh_object(value, depth + 1, visits_left);
}

PyObject *weigh(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 2 || !PyList_CheckExact(args[0]) || !PyLong_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected a list and where in it to begin");
        return NULL;
    }
    uint64_t bytes = 0;
    Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (at == -1 && PyErr_Occurred()) {
        return NULL;
    }
    for (; at >= 0 && at < PyList_GET_SIZE(args[0]); at++) {
        PyObject *value = PyList_GET_ITEM(args[0], at);
        int visits_left = VISITS_MAX;
        Py_INCREF(value); /* __sizeof__ of a user's class may change the list */
        bytes += PLACE_BYTES + weigh_one(value, 0, &visits_left);
        Py_DECREF(value);
    }
    return PyLong_FromUnsignedLongLong(bytes);
}
