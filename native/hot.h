/* What the files of the extension _hot share: heads of bundles, their names, and vectors of 64-bit numbers.
 *
 * A head is three unsigned 64-bit numbers in a row, and a column of heads is a Python array('Q'):
 *
 *     +------+-------------+---------+------+-------------+---------+ ...
 *     | root | incarnation | lineage | root | incarnation | lineage |
 *     +------+-------------+---------+------+-------------+---------+ ...
 */
#ifndef TAILRACE_HOT_H
#define TAILRACE_HOT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { HEAD_ROOT, HEAD_INC, HEAD_LINEAGE, HEAD_PLACES };

/* Of a message between workers; tailrace/transport/wire.py draws it. */
#define MESSAGE_HEAD_BYTES 6
#define FRAME_HEAD_BYTES 9
#define FRAME_DATA 1

#define OFFSET_BITS 47
#define OFFSET_MAX ((1ULL << OFFSET_BITS) - 1)
/* The lower part of an incarnation counts the replays of its root; tailrace/batch.py. */
#define REPLAY_BITS 32
#define REPLAY_MAX ((1ULL << REPLAY_BITS) - 1)

typedef struct {
    uint64_t *items;
    size_t length, room;
} Numbers;

uint64_t mix(uint64_t lineage, uint64_t tag);

int numbers_push(Numbers *numbers, uint64_t item);
/* A new array('Q') with the numbers. */
PyObject *numbers_array(const Numbers *numbers);
/* A new array('Q') with the bytes of heads. */
PyObject *heads_array(const unsigned char *at, size_t bytes);
/* Append the numbers to an array('Q'). */
int numbers_append_to(const Numbers *numbers, PyObject *array);

int head_push(Numbers *heads, uint64_t root, uint64_t inc, uint64_t lineage);

/* The heads of a batch, lent by an array('Q') until they are closed. */
typedef struct {
    Py_buffer view;
    const uint64_t *at;
    Py_ssize_t count;
} Heads;

/* Borrow the heads of an array('Q'); fails unless they are whole heads. */
int heads_open(Heads *heads, PyObject *array);
void heads_close(Heads *heads);

int hot_prepare(void);
PyObject *file_bundles(PyObject *module, PyObject *args);
PyObject *file_values(PyObject *module, PyObject *args);
PyObject *pack_frame(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *open_message(PyObject *module, PyObject *message);
PyObject *weigh(PyObject *module, PyObject *const *args, Py_ssize_t count);
int open_roots_ready(PyObject *module);

#endif
