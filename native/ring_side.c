/*
 * Side files: a message larger than a quarter of the ring is written to a file of its own in the ring's folder, and only
 * the name travels through the ring. Called by the face; touches files named side-* in that folder.
 */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const unsigned char *data, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes;) {
        ssize_t count = write(fd, data + at, bytes - at);
        if (count == -1 && errno != EINTR) {
            return -1;
        }
        at += count > 0 ? (uint64_t)count : 0;
    }
    return 0;
}

int ring_side_write(int folder, struct ring_side *side, const void *data, uint64_t bytes) {
    uint64_t random[2];
    memset(side, 0, sizeof *side);
    side->bytes = bytes;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return -1;
    }
    snprintf(side->name, sizeof side->name, "side-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    int fd = openat(folder, side->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd == -1) {
        return -1;
    }
    int result = write_all(fd, data, bytes);
    int error = errno;
    close(fd);
    if (result == -1) {
        unlinkat(folder, side->name, 0);
    }
    errno = error;
    return result;
}

static bool name_is_ours(const struct ring_side *side) {
    return memchr(side->name, '\0', sizeof side->name) != NULL && strncmp(side->name, "side-", 5) == 0 &&
           strchr(side->name, '/') == NULL;
}

static int read_all(int fd, unsigned char *data, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes;) {
        ssize_t count = read(fd, data + at, bytes - at);
        if (count == 0) {
            errno = EIO;
            return -1;
        }
        if (count == -1 && errno != EINTR) {
            return -1;
        }
        at += count > 0 ? (uint64_t)count : 0;
    }
    return 0;
}

int ring_side_read(int folder, const struct ring_side *side, void *data) {
    if (!name_is_ours(side)) {
        errno = EINVAL;
        return -1;
    }
    int fd = openat(folder, side->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1) {
        return -1;
    }
    struct stat info;
    int result = -1;
    if (fstat(fd, &info) == 0) {
        errno = EINVAL;
        if (S_ISREG(info.st_mode) && info.st_uid == geteuid() && (uint64_t)info.st_size == side->bytes) {
            result = read_all(fd, data, side->bytes);
        }
    }
    int error = errno;
    close(fd);
    errno = error;
    return result;
}

void ring_side_remove(int folder, const struct ring_side *side) {
    if (name_is_ours(side)) {
        unlinkat(folder, side->name, 0);
    }
}
