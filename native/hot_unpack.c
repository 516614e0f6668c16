/* A message taken apart into its frames, and what hot_pack.c wrote back to a batch's columns: values, sizes and heads.
 * Bytes come from a peer that has proved the secret, but every length is checked against what is there all the same.
 */
#include "hot.h"

#include <string.h>

typedef struct {
    const unsigned char *at, *end;
} Reader;

static int spoiled(void)
{
    PyErr_SetString(PyExc_ValueError, "the bytes are no batch: a length or a type does not fit");
    return -1;
}

static const unsigned char *take(Reader *r, size_t bytes)
{
    if ((size_t)(r->end - r->at) < bytes) {
        spoiled();
        return NULL;
    }
    const unsigned char *at = r->at;
    r->at += bytes;
    return at;
}

/* The big-endian number of so many bytes. */
static int take_number(Reader *r, size_t bytes, uint64_t *number)
{
    const unsigned char *at = take(r, bytes);
    if (at == NULL) {
        return -1;
    }
    *number = 0;
    for (size_t i = 0; i < bytes; i++) {
        *number = *number << 8 | at[i];
    }
    return 0;
}

static int take_lead(Reader *r, unsigned char *lead)
{
    const unsigned char *at = take(r, 1);
    if (at == NULL) {
        return -1;
    }
    *lead = *at;
    return 0;
}

/* A length that is in the low bits of its leading byte, or follows in 1, 2 or 4 bytes: first is the code for the shortest. */
static int take_length(Reader *r, unsigned char short_code, unsigned char short_mask, unsigned char first, size_t shortest,
                       size_t *length)
{
    unsigned char lead;
    uint64_t number;
    if (take_lead(r, &lead) < 0) {
        return -1;
    }
    if (short_mask != 0 && (lead & (unsigned char)~short_mask) == short_code) {
        *length = lead & short_mask;
        return 0;
    }
    size_t bytes = shortest;
    for (unsigned char code = first; bytes <= 4; code++, bytes *= 2) {
        if (lead == code) {
            int failed = take_number(r, bytes, &number);
            *length = (size_t)number;
            return failed;
        }
    }
    return spoiled();
}

static int take_count(Reader *r, size_t *count)
{
    int failed = take_length(r, 0x90, 0x0f, 0xdc, 2, count);
    return failed == 0 && *count > (size_t)(r->end - r->at) ? spoiled() : failed;
}

static PyObject *take_integer(Reader *r)
{
    unsigned char lead;
    uint64_t number;
    if (take_lead(r, &lead) < 0) {
        return NULL;
    }
    if (lead < 0x80 || lead >= 0xe0) {
        return PyLong_FromLong((signed char)lead);
    }
    if (lead < 0xcc || lead > 0xd3) {
        spoiled();
        return NULL;
    }
    size_t bytes = (size_t)1 << (lead & 3);
    if (take_number(r, bytes, &number) < 0) {
        return NULL;
    }
    if (lead < 0xd0) {
        return PyLong_FromUnsignedLongLong(number);
    }
    int spare = 64 - 8 * (int)bytes; /* moved to the top and back, the sign goes all the way */
    return PyLong_FromLongLong((int64_t)(number << spare) >> spare);
}

static int is_ascii(const unsigned char *at, size_t length)
{
    uint64_t high = 0, word;
    for (; length >= sizeof word; at += sizeof word, length -= sizeof word) {
        memcpy(&word, at, sizeof word);
        high |= word;
    }
    while (length-- > 0) {
        high |= *at++;
    }
    return (high & 0x8080808080808080ULL) == 0;
}

static PyObject *take_text(Reader *r)
{
    size_t length;
    const unsigned char *at;
    if (take_length(r, 0xa0, 0x1f, 0xd9, 1, &length) < 0 || (at = take(r, length)) == NULL) {
        return NULL;
    }
    if (!is_ascii(at, length)) {
        return PyUnicode_DecodeUTF8((const char *)at, (Py_ssize_t)length, NULL);
    }
    PyObject *text = PyUnicode_New((Py_ssize_t)length, 127);
    if (text != NULL && length > 0) {
        memcpy(PyUnicode_1BYTE_DATA(text), at, length);
    }
    return text;
}

static PyObject *take_binary(Reader *r)
{
    size_t length;
    const unsigned char *at;
    if (take_length(r, 0, 0, 0xc4, 1, &length) < 0 || (at = take(r, length)) == NULL) {
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)length);
}

static PyObject *take_real(Reader *r)
{
    unsigned char lead;
    uint64_t bits;
    double number;
    if (take_lead(r, &lead) < 0 || (lead != 0xcb && spoiled() < 0) || take_number(r, 8, &bits) < 0) {
        return NULL;
    }
    memcpy(&number, &bits, sizeof number);
    return PyFloat_FromDouble(number);
}

static PyObject *take_truth(Reader *r)
{
    unsigned char lead;
    if (take_lead(r, &lead) < 0 || ((lead & 0xfe) != 0xc2 && spoiled() < 0)) {
        return NULL;
    }
    return PyBool_FromLong(lead == 0xc3);
}

static PyObject *take_plain(Reader *r, char letter)
{
    switch (letter) {
    case 's':
        return take_text(r);
    case 'i':
        return take_integer(r);
    case 'f':
        return take_real(r);
    case 'y':
        return take_binary(r);
    case 'b':
        return take_truth(r);
    default:
        spoiled();
        return NULL;
    }
}

static PyObject *take_tuple(Reader *r, const char *letters, size_t places)
{
    size_t count;
    if (take_count(r, &count) < 0 || (count != places && spoiled() < 0)) {
        return NULL;
    }
    PyObject *tuple = PyTuple_New((Py_ssize_t)places);
    for (size_t i = 0; tuple != NULL && i < places; i++) {
        PyObject *part = take_plain(r, letters[i]);
        if (part == NULL) {
            Py_CLEAR(tuple);
        } else {
            PyTuple_SET_ITEM(tuple, (Py_ssize_t)i, part);
        }
    }
    return tuple;
}

/* A list of plain values, or of tuples where the signature has brackets. */
static PyObject *take_list(Reader *r, const char *signature, size_t length)
{
    size_t count;
    if (take_count(r, &count) < 0) {
        return NULL;
    }
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *value = length == 1 ? take_plain(r, signature[0]) : take_tuple(r, signature + 1, length - 2);
        if (value == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)i, value);
        }
    }
    return list;
}

static PyObject *take_sizes(Reader *r)
{
    if (r->at < r->end && *r->at == 0xc0) {
        r->at++;
        return Py_NewRef(Py_None);
    }
    return take_list(r, "i", 1);
}

static PyObject *take_heads(Reader *r)
{
    const unsigned char *at = take(r, sizeof(uint32_t));
    if (at == NULL) {
        return NULL;
    }
    uint32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    at = take(r, bytes);
    if (at == NULL || (bytes % (HEAD_PLACES * sizeof(uint64_t)) != 0 && spoiled() < 0)) {
        return NULL;
    }
    return heads_array(at, bytes);
}

static PyObject *take_batch(Reader *r)
{
    unsigned char length, pair;
    if (take_lead(r, &length) < 0) {
        return NULL;
    }
    if (length == 0) {
        return Py_NewRef(Py_None); /* pickled: for Python */
    }
    const char *signature = (const char *)take(r, length);
    if (signature == NULL || (length == 2 && spoiled() < 0)) {
        return NULL;
    }
    PyObject *heads = take_heads(r), *sizes = NULL, *values = NULL, *batch = NULL;
    if (heads != NULL && take_lead(r, &pair) == 0 && (pair == 0x92 || spoiled() == 0)) {
        sizes = take_sizes(r);
        values = sizes == NULL ? NULL : take_list(r, signature, length);
    }
    if (values != NULL && (r->at == r->end || spoiled() == 0)) {
        batch = PyTuple_Pack(3, values, sizes, heads);
    }
    Py_XDECREF(heads);
    Py_XDECREF(sizes);
    Py_XDECREF(values);
    return batch;
}

/* The next frame as (kind, channel, content): of plain data the columns, of anything else its bytes. */
static PyObject *take_frame(Reader *r)
{
    uint32_t channel, length;
    const unsigned char *head = take(r, FRAME_HEAD_BYTES), *payload;
    if (head == NULL) {
        return NULL;
    }
    memcpy(&channel, head + 1, sizeof channel);
    memcpy(&length, head + 5, sizeof length);
    if ((payload = take(r, length)) == NULL) {
        return NULL;
    }
    PyObject *content = NULL;
    if (head[0] == FRAME_DATA) {
        Reader inner = {payload, payload + length};
        content = take_batch(&inner);
        if (content == NULL) {
            return NULL;
        }
    }
    if (content == NULL || content == Py_None) {
        Py_XDECREF(content);
        content = PyBytes_FromStringAndSize((const char *)payload, length);
    }
    return content == NULL ? NULL : Py_BuildValue("(BkN)", head[0], (unsigned long)channel, content);
}

static PyObject *take_frames(Reader *r)
{
    PyObject *frames = PyList_New(0);
    while (frames != NULL && r->at < r->end) {
        PyObject *frame = take_frame(r);
        if (frame == NULL || PyList_Append(frames, frame) < 0) {
            Py_CLEAR(frames);
        }
        Py_XDECREF(frame);
    }
    return frames;
}

PyObject *open_message(PyObject *module, PyObject *message)
{
    (void)module;
    Py_buffer view;
    if (PyObject_GetBuffer(message, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    Reader reader = {view.buf, (const unsigned char *)view.buf + view.len};
    const unsigned char *head = take(&reader, MESSAGE_HEAD_BYTES);
    PyObject *frames = head == NULL ? NULL : take_frames(&reader);
    uint16_t slot = 0;
    uint32_t attempt = 0;
    if (frames != NULL) {
        memcpy(&slot, head, sizeof slot);
        memcpy(&attempt, head + sizeof slot, sizeof attempt);
    }
    PyBuffer_Release(&view);
    return frames == NULL ? NULL : Py_BuildValue("(HkN)", slot, (unsigned long)attempt, frames);
}
