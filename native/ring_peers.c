/*
 * Who is attached to a ring, and who of them is dead. Called at attach, at close, and by waiting or stuck consumers;
 * touches the peer table of the ring and reads /proc.
 *
 * A peer is a process, known by its pid and its start time in one 64-bit word: a pid given to a new process has another
 * start time. Namespaces in which the same process has another pid or start time are refused at attach (ring_map.c).
 */
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PID_BITS 22 /* the kernel's own limit on pids is 2^22 */
#define PID_MASK ((UINT64_C(1) << PID_BITS) - 1)
#define MAINTAIN_EVERY_US 5000

struct process {
    char state;
    long threads;
    uint64_t start_ticks;
};

/* Returns 0, or an errno: ENOENT and ESRCH mean that there is no such process. */
static int read_process(uint32_t pid, struct process *process) {
    char path[40], text[512];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1) {
        return errno;
    }
    ssize_t count = read(fd, text, sizeof text - 1);
    int error = count > 0 ? 0 : count == 0 ? ESRCH : errno;
    close(fd);
    if (error != 0) {
        return error;
    }
    text[count] = '\0';
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    unsigned long long start = 0;
    if (rest == NULL || sscanf(rest + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s %llu",
                               &process->state, &process->threads, &start) != 3) {
        return EINVAL;
    }
    process->start_ticks = start;
    return 0;
}

static uint64_t identity_of(uint32_t pid, uint64_t start_ticks) { return start_ticks << PID_BITS | pid; }

/* 0 where /proc cannot be read. */
uint64_t ring_own_identity(void) {
    struct process process = {0};
    uint32_t pid = (uint32_t)getpid();
    return read_process(pid, &process) == 0 ? identity_of(pid, process.start_ticks) : 0;
}

/* True only if no thread of that process can ever write again. A zombie counts as dead once its last thread has ended;
 * whatever cannot be told (no permission, no memory) counts as alive. */
bool ring_identity_is_dead(uint64_t identity) {
    uint32_t pid = (uint32_t)(identity & PID_MASK);
    if (kill((pid_t)pid, 0) == -1 && errno == ESRCH) {
        return true;
    }
    struct process process = {0};
    int error = read_process(pid, &process);
    if (error != 0) {
        return (error == ENOENT || error == ESRCH) && kill((pid_t)pid, 0) == -1 && errno == ESRCH;
    }
    bool gone = (process.state == 'Z' || process.state == 'X') && process.threads <= 1;
    return gone || identity_of(pid, process.start_ticks) != identity;
}

static void free_places(struct ring *r, const uint64_t dead[RING_PEERS]) {
    for (uint32_t i = 0; i < RING_PEERS; i++) {
        uint64_t identity = dead[i];
        if (identity != 0) {
            ring_cas(&r->file->peers[i], &identity, 0);
        }
    }
}

/* Resolves the records of every dead peer among those marked in `suspects`. */
static bool bury(struct ring *r, const bool suspects[RING_PEERS]) {
    uint64_t dead[RING_PEERS] = {0};
    bool any = false;
    for (uint32_t i = 0; i < RING_PEERS; i++) {
        if (!suspects[i] || i == r->peer) {
            continue;
        }
        uint64_t identity = ring_load(&r->file->peers[i]);
        if (identity != 0 && ring_identity_is_dead(identity)) {
            dead[i] = identity;
            any = true;
        }
    }
    if (any) {
        ring_resolve_dead(r, dead);
        free_places(r, dead);
        ring_advance_left(r);
        ring_wake_consumers(r);
        ring_wake_producers(r, true);
    }
    return any;
}

static bool take_place(struct ring *r, uint64_t identity) {
    for (uint32_t i = 0; i < RING_PEERS; i++) {
        uint64_t vacant = 0;
        if (ring_load(&r->file->peers[i]) == 0 && ring_cas(&r->file->peers[i], &vacant, identity)) {
            r->peer = i;
            return true;
        }
    }
    return false;
}

enum ring_result ring_join(struct ring *r) {
    uint64_t identity = ring_own_identity();
    r->peer = RING_PEERS;
    r->pid = (uint32_t)getpid();
    if (identity == 0) {
        return RING_NO_PEER;
    }
    if (take_place(r, identity)) {
        return RING_OK;
    }
    bool everyone[RING_PEERS];
    memset(everyone, true, sizeof everyone);
    return bury(r, everyone) && take_place(r, identity) ? RING_OK : RING_NO_PEER;
}

/* Gives back what this handle has claimed, then its place. A record it reserved and never published keeps the place. */
void ring_leave(struct ring *r) {
    bool writing = false;
    uint64_t frontier = ring_frontier(r);
    for (uint64_t seq = ring_load(&r->file->left); seq < frontier; seq++) {
        uint64_t control = ring_load(&ring_head_of(r, seq)->control);
        if (ring_lap_in(control) == ring_lap_of(r, seq) && ring_peer_in(control) == r->peer) {
            writing = writing || ring_status_in(control) == RING_WRITING;
            ring_give_back(r, seq);
        }
    }
    if (!writing) {
        ring_store(&r->file->peers[r->peer], 0);
    }
    r->peer = RING_PEERS;
}

static void mark_owners(struct ring *r, uint64_t left, bool owners[RING_PEERS]) {
    for (uint64_t seq = left;; seq++) {
        uint64_t control = ring_load(&ring_head_of(r, seq)->control);
        enum ring_status status = ring_status_in(control);
        if (ring_lap_in(control) != ring_lap_of(r, seq)) {
            return;
        }
        if (status == RING_WRITING || status == RING_CLAIMED) {
            owners[ring_peer_in(control)] = true;
        }
    }
}

/* A consumer's housekeeping, at most every few milliseconds: if the left side has not moved since the last time although
 * records wait there, see whether their owners are dead. The window is then searched anew from the left, because a claim
 * that was given back lies behind the right side. */
void ring_maintain(struct ring *r, int64_t now_us) {
    if (now_us - r->maintained_us < MAINTAIN_EVERY_US) {
        return;
    }
    r->maintained_us = now_us;
    ring_advance_left(r);
    uint64_t left = ring_load(&r->file->left);
    bool stuck = left == r->maintained_left && left < ring_frontier(r);
    r->maintained_left = left;
    if (stuck) {
        bool owners[RING_PEERS] = {false};
        mark_owners(r, left, owners);
        bury(r, owners);
    }
    r->right = left;
    r->hole_count = 0;
}
