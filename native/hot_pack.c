/* A batch to bytes in one pass, where its values are all of one plain type or all tuples of the same plain types.
 *
 *     +--------+-----------+-------------+-------+--------------------------------+
 *     | length | signature | heads bytes | heads | MessagePack: [sizes, values]   |
 *     | u8     |           | u32         |       |                                |
 *     +--------+-----------+-------------+-------+--------------------------------+
 *
 * tailrace/transport/codec.py has the same in Python and takes over whatever is refused here, with None.
 */
#include "hot.h"

#include <string.h>

#define SIGNATURE_MAX 250
#define FIRST_BYTES 4096
/* The scratch is kept between calls unless a large batch has blown it up. */
#define KEPT_BYTES (1 << 20)

typedef struct {
    unsigned char *at;
    size_t length, room;
} Scratch;

static Scratch scratch;

/* Room for so many more bytes at the end; NULL when there is no memory. */
static unsigned char *grow(Scratch *s, size_t bytes)
{
    if (s->at == NULL || s->length + bytes > s->room) {
        size_t room = s->room == 0 ? FIRST_BYTES : s->room;
        while (room < s->length + bytes) {
            room *= 2;
        }
        unsigned char *at = PyMem_Realloc(s->at, room);
        if (at == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        s->at = at;
        s->room = room;
    }
    unsigned char *end = s->at + s->length;
    s->length += bytes;
    return end;
}

static int put_bytes(Scratch *s, const void *bytes, size_t length)
{
    unsigned char *at = grow(s, length);
    if (at == NULL) {
        return -1;
    }
    memcpy(at, bytes, length);
    return 0;
}

/* A leading byte and a big-endian number of so many bytes behind it. */
static int put_number(Scratch *s, unsigned char lead, uint64_t number, int bytes)
{
    unsigned char *at = grow(s, 1 + (size_t)bytes);
    if (at == NULL) {
        return -1;
    }
    at[0] = lead;
    for (int i = bytes; i > 0; i--) {
        at[i] = (unsigned char)number;
        number >>= 8;
    }
    return 0;
}

static int put_unsigned(Scratch *s, uint64_t number)
{
    if (number < 0x80) {
        return put_number(s, (unsigned char)number, 0, 0);
    }
    return number <= UINT8_MAX    ? put_number(s, 0xcc, number, 1)
           : number <= UINT16_MAX ? put_number(s, 0xcd, number, 2)
           : number <= UINT32_MAX ? put_number(s, 0xce, number, 4)
                                  : put_number(s, 0xcf, number, 8);
}

static int put_signed(Scratch *s, int64_t number)
{
    if (number >= 0) {
        return put_unsigned(s, (uint64_t)number);
    }
    if (number >= -32) {
        return put_number(s, (unsigned char)number, 0, 0);
    }
    return number >= INT8_MIN    ? put_number(s, 0xd0, (uint64_t)number, 1)
           : number >= INT16_MIN ? put_number(s, 0xd1, (uint64_t)number, 2)
           : number >= INT32_MIN ? put_number(s, 0xd2, (uint64_t)number, 4)
                                 : put_number(s, 0xd3, (uint64_t)number, 8);
}

static int put_array(Scratch *s, size_t count)
{
    return count < 16           ? put_number(s, (unsigned char)(0x90 | count), 0, 0)
           : count <= UINT16_MAX ? put_number(s, 0xdc, count, 2)
                                 : put_number(s, 0xdd, count, 4);
}

/* Each of these: 0 is done, 1 is refused (no error set), -1 is an error. */

static int put_text(Scratch *s, PyObject *value)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(value, &length);
    if (text == NULL) { /* a lone surrogate */
        PyErr_Clear();
        return 1;
    }
    int failed = length < 32           ? put_number(s, (unsigned char)(0xa0 | length), 0, 0)
                 : length <= UINT8_MAX  ? put_number(s, 0xd9, (uint64_t)length, 1)
                 : length <= UINT16_MAX ? put_number(s, 0xda, (uint64_t)length, 2)
                 : length <= UINT32_MAX ? put_number(s, 0xdb, (uint64_t)length, 4)
                                        : 1;
    return failed ? failed : put_bytes(s, text, (size_t)length);
}

static int put_binary(Scratch *s, PyObject *value)
{
    Py_ssize_t length = PyBytes_GET_SIZE(value);
    int failed = length <= UINT8_MAX    ? put_number(s, 0xc4, (uint64_t)length, 1)
                 : length <= UINT16_MAX ? put_number(s, 0xc5, (uint64_t)length, 2)
                 : length <= UINT32_MAX ? put_number(s, 0xc6, (uint64_t)length, 4)
                                        : 1;
    return failed ? failed : put_bytes(s, PyBytes_AS_STRING(value), (size_t)length);
}

static int put_integer(Scratch *s, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) {
        return put_signed(s, number);
    }
    if (overflow < 0) {
        return 1;
    }
    unsigned long long large = PyLong_AsUnsignedLongLong(value);
    if (large == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Clear();
        return 1;
    }
    return put_unsigned(s, large);
}

static int put_real(Scratch *s, PyObject *value)
{
    double number = PyFloat_AS_DOUBLE(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return put_number(s, 0xcb, bits, 8);
}

static char letter_of(const PyObject *value)
{
    const PyTypeObject *type = Py_TYPE(value);
    return type == &PyUnicode_Type ? 's'
           : type == &PyLong_Type  ? 'i'
           : type == &PyFloat_Type ? 'f'
           : type == &PyBytes_Type ? 'y'
           : type == &PyBool_Type  ? 'b'
                                   : 0;
}

static int put_plain(Scratch *s, PyObject *value, char letter)
{
    if (letter_of(value) != letter) {
        return 1;
    }
    switch (letter) {
    case 's':
        return put_text(s, value);
    case 'i':
        return put_integer(s, value);
    case 'f':
        return put_real(s, value);
    case 'y':
        return put_binary(s, value);
    default:
        return put_number(s, value == Py_True ? 0xc3 : 0xc2, 0, 0);
    }
}

/* Name the type of the first value; all others must have the same. Its length, or 0 where it is not plain. */
static size_t sign(PyObject *value, char *signature)
{
    signature[0] = letter_of(value);
    if (signature[0] != 0) {
        return 1;
    }
    Py_ssize_t places = PyTuple_CheckExact(value) ? PyTuple_GET_SIZE(value) : 0;
    if (places == 0 || places > SIGNATURE_MAX) {
        return 0;
    }
    signature[0] = '(';
    for (Py_ssize_t i = 0; i < places; i++) {
        signature[i + 1] = letter_of(PyTuple_GET_ITEM(value, i));
        if (signature[i + 1] == 0) {
            return 0;
        }
    }
    signature[places + 1] = ')';
    return (size_t)places + 2;
}

static int put_tuple(Scratch *s, PyObject *value, const char *letters, Py_ssize_t places)
{
    if (!PyTuple_CheckExact(value) || PyTuple_GET_SIZE(value) != places) {
        return 1;
    }
    int failed = put_array(s, (size_t)places);
    for (Py_ssize_t i = 0; !failed && i < places; i++) {
        failed = put_plain(s, PyTuple_GET_ITEM(value, i), letters[i]);
    }
    return failed;
}

static int put_values(Scratch *s, PyObject *values, const char *signature, size_t length)
{
    int failed = put_array(s, (size_t)PyList_GET_SIZE(values));
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(values); i++) {
        PyObject *value = PyList_GET_ITEM(values, i);
        failed = length == 1 ? put_plain(s, value, signature[0])
                             : put_tuple(s, value, signature + 1, (Py_ssize_t)length - 2);
    }
    return failed;
}

static int put_sizes(Scratch *s, PyObject *sizes)
{
    if (sizes == Py_None) {
        return put_number(s, 0xc0, 0, 0);
    }
    if (!PyList_CheckExact(sizes)) {
        return 1;
    }
    int failed = put_array(s, (size_t)PyList_GET_SIZE(sizes));
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(sizes); i++) {
        failed = put_plain(s, PyList_GET_ITEM(sizes, i), 'i');
    }
    return failed;
}

static int put_heads(Scratch *s, PyObject *heads)
{
    Heads in = {0};
    if (heads_open(&in, heads) < 0) {
        return -1;
    }
    uint32_t bytes = (uint32_t)in.view.len;
    int failed = (Py_ssize_t)bytes != in.view.len ? 1 : put_bytes(s, &bytes, sizeof bytes);
    failed = failed ? failed : put_bytes(s, in.at, bytes);
    heads_close(&in);
    return failed;
}

static int put_batch(Scratch *s, PyObject *values, PyObject *sizes, PyObject *heads)
{
    char signature[SIGNATURE_MAX + 2];
    size_t length = PyList_GET_SIZE(values) == 0 ? 0 : sign(PyList_GET_ITEM(values, 0), signature);
    if (length == 0) {
        return 1;
    }
    unsigned char first = (unsigned char)length;
    int failed = put_bytes(s, &first, 1);
    failed = failed ? failed : put_bytes(s, signature, length);
    failed = failed ? failed : put_heads(s, heads);
    failed = failed ? failed : put_array(s, 2);
    failed = failed ? failed : put_sizes(s, sizes);
    return failed ? failed : put_values(s, values, signature, length);
}

/* The scratch as bytes, or None where the batch was refused. */
static PyObject *packed(int failed)
{
    PyObject *found = failed < 0 ? NULL
                      : failed  ? Py_NewRef(Py_None)
                                : PyBytes_FromStringAndSize((const char *)scratch.at, (Py_ssize_t)scratch.length);
    if (scratch.room > KEPT_BYTES) {
        PyMem_Free(scratch.at);
        scratch = (Scratch){0};
    }
    return found;
}

/* A batch as a frame of data, behind the bytes given last: so a message of one frame is not put together from parts.
 * tailrace/transport/wire.py has the layout. */
PyObject *pack_frame(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (count != 5 || !PyBytes_CheckExact(args[4]) || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "pack_frame takes channel, a list of values, sizes, heads and bytes");
        return NULL;
    }
    uint32_t channel = (uint32_t)PyLong_AsUnsignedLongMask(args[0]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    scratch.length = 0;
    size_t before = (size_t)PyBytes_GET_SIZE(args[4]), body = before + FRAME_HEAD_BYTES;
    int failed = put_bytes(&scratch, PyBytes_AS_STRING(args[4]), before) < 0 || grow(&scratch, FRAME_HEAD_BYTES) == NULL
                     ? -1
                     : put_batch(&scratch, args[1], args[2], args[3]);
    failed = failed == 0 && scratch.length - body > UINT32_MAX ? 1 : failed;
    if (failed == 0) {
        uint32_t length = (uint32_t)(scratch.length - body);
        unsigned char *head = scratch.at + before;
        head[0] = FRAME_DATA;
        memcpy(head + 1, &channel, sizeof channel);
        memcpy(head + 5, &length, sizeof length);
    }
    return packed(failed);
}
