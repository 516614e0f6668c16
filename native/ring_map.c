/*
 * Ring files: creating, checking, mapping and resizing them. Called once per ring and process by the face in ringmodule.c
 * and by the stress programs; touches one file, whose folder is the caller's concern (segments.py).
 */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u

static int refuse(int error, const char *sentence, char *why, size_t why_size) {
    snprintf(why, why_size, "%s", sentence);
    errno = error;
    return -1;
}

static size_t arena_offset_for(uint32_t head_count) {
    size_t end = sizeof(struct ring_file) + (size_t)head_count * sizeof(struct ring_head);
    return (end + PAGE - 1) / PAGE * PAGE;
}

size_t ring_file_bytes(uint32_t head_count, uint32_t arena_units) {
    return arena_offset_for(head_count) + RING_BODY_OF(arena_units);
}

/* One head per 128 bytes of ring: enough for records of two units, and a quarter of the ring's own size. */
static uint32_t heads_for(uint64_t ring_bytes) {
    uint32_t heads = RING_HEADS_MIN;
    while (heads < RING_HEADS_MAX && heads < ring_bytes / 128) {
        heads *= 2;
    }
    return heads;
}

static uint64_t namespace_of(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

static void bind_memory(struct ring *r, void *memory, uint32_t head_count, uint32_t arena_units) {
    r->file = memory;
    r->heads = (struct ring_head *)((unsigned char *)memory + sizeof(struct ring_file));
    r->arena_offset = arena_offset_for(head_count);
    r->arena = (unsigned char *)memory + r->arena_offset;
    r->head_count = head_count;
    r->head_shift = (uint32_t)__builtin_ctz(head_count);
    r->arena_units = arena_units;
    r->map_bytes = ring_file_bytes(head_count, arena_units);
    r->right = atomic_load(&r->file->left);
    r->wakeups_seen = atomic_load(&r->file->wakeups);
}

/* Fresh memory is all zero: lap 0, HAS_READ, end 0 in every head, which is what the first lap (1) wants to find. */
void ring_format(struct ring *r, void *memory, uint32_t head_count, uint32_t arena_units, uint32_t wrap_units) {
    struct ring_file *file = memory;
    file->version = RING_VERSION;
    file->head_count = head_count;
    file->arena_units = arena_units;
    file->file_bytes = ring_file_bytes(head_count, arena_units);
    atomic_store(&file->wrap_units, wrap_units);
    atomic_store(&file->left, head_count);
    atomic_store(&file->frontier_hint, head_count);
    bind_memory(r, memory, head_count, arena_units);
}

static int allocate(int fd, size_t begin, size_t bytes) {
    int error;
    do {
        error = posix_fallocate(fd, (off_t)begin, (off_t)bytes);
    } while (error == EINTR);
    errno = error;
    return error == 0 ? 0 : -1;
}

static int map_file(struct ring *r, size_t bytes, char *why, size_t why_size) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (memory == MAP_FAILED) {
        return refuse(errno, "the ring file cannot be mapped", why, why_size);
    }
    r->file = memory;
    r->map_bytes = bytes;
    return 0;
}

/* Enters the pages into this process's tables now, or each message of the first lap would pay for it: once per mapping,
 * about half a millisecond for 4 MiB. Where the kernel cannot, the first lap is slower and nothing else. */
static void touch(struct ring *r, size_t begin, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
    size_t page = (size_t)sysconf(_SC_PAGESIZE), first = begin / page * page;
    (void)madvise((unsigned char *)r->file + first, begin + bytes - first, MADV_POPULATE_WRITE);
#else
    (void)r, (void)begin, (void)bytes;
#endif
}

static int join(struct ring *r, char *why, size_t why_size) {
    if (ring_join(r) == RING_OK) {
        return 0;
    }
    return refuse(EMFILE, "the ring has no place for another process, or /proc cannot be read", why, why_size);
}

/* The pages up to the wrap line are allocated now, so that a full /dev/shm is an error here and not a SIGBUS later. */
static int build(struct ring *r, uint32_t heads, uint32_t units, uint32_t wrap, char *why, size_t why_size) {
    size_t bytes = ring_file_bytes(heads, units);
    if (ftruncate(r->fd, (off_t)bytes) == -1) {
        return refuse(errno, "the ring file cannot be sized", why, why_size);
    }
    if (allocate(r->fd, 0, arena_offset_for(heads) + RING_BODY_OF(wrap)) == -1) {
        return refuse(errno, "shared memory has no room for the ring", why, why_size);
    }
    if (map_file(r, bytes, why, why_size) == -1) {
        return -1;
    }
    touch(r, 0, arena_offset_for(heads) + RING_BODY_OF(wrap));
    ring_format(r, r->file, heads, units, wrap);
    r->file->pid_namespace = namespace_of("/proc/self/ns/pid");
    r->file->time_namespace = namespace_of("/proc/self/ns/time");
    r->file->creator = ring_own_identity();
    if (join(r, why, why_size) == -1) {
        return -1;
    }
    atomic_store(&r->file->magic, RING_MAGIC);
    return 0;
}

int ring_create(struct ring *r, const char *path, uint64_t ring_bytes, uint64_t ring_bytes_max, char *why, size_t why_size) {
    memset(r, 0, sizeof *r);
    r->peer = RING_PEERS;
    uint64_t units = (ring_bytes_max + RING_UNIT - 1) / RING_UNIT, wrap = (ring_bytes + RING_UNIT - 1) / RING_UNIT;
    if (wrap < RING_ARENA_UNITS_MIN || wrap > units || units > RING_ARENA_UNITS_MAX) {
        r->fd = -1;
        return refuse(EINVAL, "a ring has at least 1 KiB, at most 64 MiB, and never more than its bound", why, why_size);
    }
    r->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r->fd == -1) {
        return refuse(errno, "the ring file cannot be created", why, why_size);
    }
    if (build(r, heads_for(ring_bytes), (uint32_t)units, (uint32_t)wrap, why, why_size) == -1) {
        int error = errno;
        ring_unmap(r);
        unlink(path);
        errno = error;
        return -1;
    }
    return 0;
}

static const char *fault_in_file(const struct stat *info) {
    if (!S_ISREG(info->st_mode)) {
        return "the ring is not a regular file";
    }
    if (info->st_uid != geteuid()) {
        return "the ring belongs to another user";
    }
    if ((info->st_mode & 077) != 0) {
        return "the ring is open to other users (its mode must be 0600)";
    }
    return (size_t)info->st_size < sizeof(struct ring_file) ? "the file is too short for a ring" : NULL;
}

static const char *fault_in_header(const struct ring_file *file, uint64_t size) {
    if (atomic_load(&file->magic) != RING_MAGIC) {
        return "the file is not a ring, or is not finished";
    }
    if (file->version != RING_VERSION) {
        return "the ring was made by another version of Tailrace";
    }
    uint32_t heads = file->head_count, units = file->arena_units;
    bool sound = heads >= RING_HEADS_MIN && heads <= RING_HEADS_MAX && (heads & (heads - 1)) == 0 &&
                 units >= RING_ARENA_UNITS_MIN && units <= RING_ARENA_UNITS_MAX;
    if (!sound || file->file_bytes != size || ring_file_bytes(heads, units) != size) {
        return "the ring's header does not fit its file";
    }
    if (file->pid_namespace != namespace_of("/proc/self/ns/pid") ||
        file->time_namespace != namespace_of("/proc/self/ns/time")) {
        return "the ring belongs to another pid or time namespace, where dead processes cannot be told from live ones";
    }
    return NULL;
}

static int attach_open(struct ring *r, char *why, size_t why_size) {
    struct stat info;
    if (fstat(r->fd, &info) == -1) {
        return refuse(errno, "the ring file cannot be examined", why, why_size);
    }
    const char *fault = fault_in_file(&info);
    if (fault != NULL) {
        return refuse(EACCES, fault, why, why_size);
    }
    if (map_file(r, (size_t)info.st_size, why, why_size) == -1) {
        return -1;
    }
    fault = fault_in_header(r->file, (uint64_t)info.st_size);
    if (fault != NULL) {
        return refuse(EINVAL, fault, why, why_size);
    }
    bind_memory(r, r->file, r->file->head_count, r->file->arena_units);
    uint32_t wrap = atomic_load(&r->file->wrap_units);
    touch(r, 0, r->arena_offset + RING_BODY_OF(wrap < r->arena_units ? wrap : r->arena_units));
    return join(r, why, why_size);
}

int ring_attach(struct ring *r, const char *path, char *why, size_t why_size) {
    memset(r, 0, sizeof *r);
    r->peer = RING_PEERS;
    r->fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (r->fd == -1) {
        return refuse(errno, errno == ELOOP ? "the ring is a symbolic link" : "the ring cannot be opened", why, why_size);
    }
    if (attach_open(r, why, why_size) == -1) {
        int error = errno;
        ring_unmap(r);
        errno = error;
        return -1;
    }
    return 0;
}

/* Moves the wrap line. Growing allocates first; shrinking keeps the pages, a slow producer may still hold the old line. */
int ring_resize(struct ring *r, uint64_t ring_bytes) {
    uint64_t units = (ring_bytes + RING_UNIT - 1) / RING_UNIT;
    units = units < RING_ARENA_UNITS_MIN ? RING_ARENA_UNITS_MIN : units > r->arena_units ? r->arena_units : units;
    if (allocate(r->fd, r->arena_offset, RING_BODY_OF(units)) == -1) {
        return -1;
    }
    touch(r, r->arena_offset, RING_BODY_OF(units));
    atomic_store(&r->file->wrap_units, (uint32_t)units);
    ring_wake_producers(r, true);
    return 0;
}

/* Also tidies up after a create or attach that stopped half way. */
void ring_unmap(struct ring *r) {
    if (r->file != NULL) {
        if (r->peer < RING_PEERS && r->pid == (uint32_t)getpid()) { /* a forked child leaves its parent's place alone */
            ring_leave(r);
        }
        munmap(r->file, r->map_bytes);
        r->file = NULL;
    }
    if (r->fd != -1) {
        close(r->fd);
        r->fd = -1;
    }
}
