/*
 * The byte layout of one ring file and the calls on it: everything two processes must agree on stands in this header.
 * ringmodule.c (the Python face) and the stress programs in tests/stress call it; it touches nothing but its one mapping.
 *
 *  file  +--------------------------------------------------------------------------------------------+
 *     0  | magic version head_count arena_units pid_namespace time_namespace creator file_bytes       |  once
 *   128  | frontier_hint   wrap_units   full_count                                                    |  producers
 *   256  | left                                                                                       |  consumers
 *   384  | wake_seq   sleeping   wakeups   patient                                                    |  waiting for news
 *   512  | space_seq  space_waiting                                                                   |  waiting for room
 *   640  | skipped_count  released_count                                                              |  monitors
 *   768  | peers[1024]: one word {start time 42 | pid 22} per attached process, 0 = vacant            |
 *        +--------------------------------------------------------------------------------------------+
 *  8960  | heads[head_count], 32 bytes each:                                                          |
 *        |   0  control  {lap 31 | status 3 | peer 10 | end 20}, the only word that decides anything  |
 *        |   8  tag      the record's 64-bit position in the stream, written by its writer, checked   |
 *        |               by its reader                                                                |
 *        |   16 target   task the record is for                                                       |
 *        |   20 length   bytes of the body                                                            |
 *        |   24 kind     plain, or side (a file's name)                                               |
 *        |   28 writer   pid of the writer                                                            |
 *        +--------------------------------------------------------------------------------------------+
 *        | arena: arena_units units of 64 bytes; bodies lie here, each in one piece                   |
 *        +--------------------------------------------------------------------------------------------+
 *
 * Records are numbered from `head_count` on; record `seq` has head `seq % head_count` and lap `seq / head_count`. A head
 * whose lap is one behind its turn is unclaimed; `end` is the unit just past the body, so a body starts where the record
 * before it ends. Therefore:
 *
 *   reserve   compare-and-swap of ONE control word: it publishes status, writer and extent together, so there is no moment
 *             at which space is taken and nobody can tell by whom or how much (the original reserves first, writes the head
 *             later). A producer that slept through a lap fails its swap, because the lap is in the word it expected.
 *   reclaim   compare-and-swap of `left`, the oldest record not yet finished. The space up to the end of record left-1 is
 *             free; that head is not reused before `left` has moved on, so `left` alone is the truth.
 *   wrap      a record that would cross the wrap line is preceded by one of status FLUSH that covers the rest of the arena.
 *             Moving the wrap line (`wrap_units`) therefore changes the ring's size at any time, without any agreement.
 *             A producer that finds the ring empty wraps early, to where the cache is warm, and reclaims what it jumped over.
 *
 *   unclaimed -> WRITING -> READY -> CLAIMED -> HAS_READ -> (left passes) unclaimed, next lap
 *      |            |         ^---------'  its consumer died or gave it back
 *      |            '-> SKIPPED             its writer is dead; a live writer, however slow, is waited for
 *      '-> FLUSH
 *
 * The paper's statuses are isWriting, isReady, hasRead, flush and other; CLAIMED and SKIPPED are what "other" is here.
 */
#ifndef TAILRACE_RING_H
#define TAILRACE_RING_H

#ifndef __linux__
#error "the shared-memory ring needs Linux (futex, /proc); other systems use Unix sockets"
#endif

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC UINT64_C(0x31474e4952525431) /* "1TRRING1" */
#define RING_VERSION 1u
#define RING_UNIT 64u
#ifndef RING_PEERS /* the explorer of the protocol keeps its states small; so with the holes below */
#define RING_PEERS 1024u
#endif
#define RING_ARENA_UNITS_MAX (UINT32_C(1) << 20)
#define RING_ARENA_UNITS_MIN 16u
#ifndef RING_WARM_UNITS
#define RING_WARM_UNITS 2048u /* 128 KiB of the arena's front are used again and again while the ring keeps running empty */
#endif
#define RING_HEADS_MIN 16u
#define RING_HEADS_MAX 65536u
#ifndef RING_HOLES_MAX
#define RING_HOLES_MAX 64
#endif
#define RING_BODY_OF(units) ((size_t)(units) * RING_UNIT)

enum ring_status {
    RING_HAS_READ = 0, /* also what a fresh head says */
    RING_WRITING = 1,
    RING_READY = 2,
    RING_CLAIMED = 3,
    RING_FLUSH = 4,
    RING_SKIPPED = 5
};

enum ring_kind { RING_PLAIN = 0, RING_SIDE = 1 };

enum ring_wait_strategy { RING_WAIT_FUTEX = 0, RING_WAIT_SPIN_FUTEX = 1, RING_WAIT_BUSY = 2 };

enum ring_result { RING_OK = 0, RING_FULL = 1, RING_NOTHING = 2, RING_CORRUPT = 3, RING_NO_PEER = 4 };

struct ring_head {
    _Atomic uint64_t control;
    uint64_t tag;
    uint32_t target;
    uint32_t length;
    uint32_t kind;
    uint32_t writer;
};

/* Lines are 128 bytes apart: processors fetch 64-byte lines in pairs. */
struct ring_file {
    _Alignas(128) _Atomic uint64_t magic; /* written last: who finds it finds the rest */
    uint32_t version;
    uint32_t head_count;
    uint32_t arena_units;
    uint32_t reserved;
    uint64_t pid_namespace;
    uint64_t time_namespace;
    uint64_t creator;
    uint64_t file_bytes;
    _Alignas(128) _Atomic uint64_t frontier_hint;
    _Atomic uint32_t wrap_units;
    _Atomic uint64_t full_count;
    _Alignas(128) _Atomic uint64_t left;
    _Alignas(128) _Atomic uint32_t wake_seq;
    _Atomic uint32_t sleeping;
    _Atomic uint32_t wakeups;
    _Atomic uint32_t patient; /* the consumer looks up soon anyway: do not wake it for what can wait */
    _Alignas(128) _Atomic uint32_t space_seq;
    _Atomic uint32_t space_waiting;
    _Alignas(128) _Atomic uint64_t skipped_count;
    _Atomic uint64_t released_count;
    _Alignas(128) _Atomic uint64_t peers[RING_PEERS];
};

_Static_assert(sizeof(struct ring_head) == 32, "two heads share a cache line");
_Static_assert(offsetof(struct ring_file, peers) == 768, "the diagram above");
_Static_assert(sizeof(struct ring_file) == 768 + 8 * RING_PEERS, "the diagram above");

/* One process's handle. The fields from `right` on belong to the one thread that consumes through it, `woke_us` and
 * `aside_*` to the one that sends through it. */
struct ring {
    struct ring_file *file;
    struct ring_head *heads;
    unsigned char *arena;
    size_t map_bytes;
    size_t arena_offset;
    int fd;
    uint32_t head_count, head_shift, arena_units;
    uint32_t peer;
    uint32_t pid;
    _Atomic uint32_t closing;

    int64_t woke_us;                       /* when a sleeping consumer was last woken */
    int64_t aside_from_us, aside_pause_us; /* until when it is not given the core, and how long the next time */
    uint32_t wakeups_seen;
    bool patient; /* as in the file */
    enum ring_wait_strategy strategy;
    int64_t spin_us;
    uint64_t right; /* right side of the sliding window: nothing before it is unseen except the holes */
    uint64_t holes[RING_HOLES_MAX];
    int hole_count;
    uint64_t maintained_left;
    int64_t maintained_us;
};

/* A reserved record: fill `body`, then publish. */
struct ring_ticket {
    uint64_t seq;
    uint32_t end;
    unsigned char *body;
};

/* A record claimed for reading; valid until ring_done or ring_give_back. */
struct ring_view {
    uint64_t seq;
    const unsigned char *body;
    uint32_t target, length, kind, writer;
};

/* ring_map.c: files and mappings. Both return 0 or -1 with errno and a sentence in `why`. */
int ring_create(struct ring *r, const char *path, uint64_t ring_bytes, uint64_t ring_bytes_max, char *why, size_t why_size);
int ring_attach(struct ring *r, const char *path, char *why, size_t why_size);
void ring_format(struct ring *r, void *memory, uint32_t head_count, uint32_t arena_units, uint32_t wrap_units);
size_t ring_file_bytes(uint32_t head_count, uint32_t arena_units);
int ring_resize(struct ring *r, uint64_t ring_bytes);
void ring_unmap(struct ring *r);

/* ring_protocol.c: the shared-memory protocol. */
enum ring_result ring_reserve(struct ring *r, uint32_t units, struct ring_ticket *ticket);
/* Gives whether a sleeping consumer was woken: then ring_step_aside, which touches nothing shared, lets it run. */
bool ring_publish(struct ring *r, const struct ring_ticket *ticket, uint32_t target, uint32_t length, uint32_t kind);
/* The same for what can wait: a consumer that said it is patient is left asleep. */
void ring_publish_calmly(struct ring *r, const struct ring_ticket *ticket, uint32_t target, uint32_t length, uint32_t kind);
void ring_abandon(struct ring *r, const struct ring_ticket *ticket);
enum ring_result ring_take(struct ring *r, struct ring_view *view);
bool ring_has_ready(struct ring *r);
bool ring_done(struct ring *r, uint64_t seq);
bool ring_give_back(struct ring *r, uint64_t seq);
void ring_advance_left(struct ring *r);
void ring_resolve_dead(struct ring *r, const uint64_t dead[RING_PEERS]);
uint32_t ring_used_units(struct ring *r);
uint64_t ring_frontier(struct ring *r);

/* ring_wait.c: sleeping and waking. */
int64_t ring_now_us(void);
bool ring_wake_consumers(struct ring *r);
void ring_step_aside(struct ring *r);
void ring_wake_producers(struct ring *r, bool now);
void ring_wakeup(struct ring *r);
/* Says that the one consumer need not be woken for what can wait; only where its next wait is short. */
void ring_set_patient(struct ring *r, bool patient);
/* 1: a record is ready or a wakeup came; 0: time is up; -1: a signal came, call again after handling it. */
int ring_wait(struct ring *r, int64_t deadline_us);
enum ring_result ring_reserve_wait(struct ring *r, uint32_t units, struct ring_ticket *ticket, int64_t deadline_us);

/* ring_peers.c: who is attached, and who of them is dead. */
uint64_t ring_own_identity(void);
enum ring_result ring_join(struct ring *r);
void ring_leave(struct ring *r);
bool ring_identity_is_dead(uint64_t identity);
void ring_maintain(struct ring *r, int64_t now_us);

/* ring_side.c: messages too large for the ring travel as a file beside it; the record holds only the file's name. */
struct ring_side {
    uint64_t bytes;
    char name[56];
};
int ring_side_write(int folder, struct ring_side *side, const void *data, uint64_t bytes);
int ring_side_read(int folder, const struct ring_side *side, void *data);
void ring_side_remove(int folder, const struct ring_side *side);

/* ring_watch.c: wakes the ring at each event of an epoll set, until `stop` (an eventfd) is written to. */
int ring_watch(struct ring *r, int epoll_fd, int stop);

/* Every access to a shared word is one step of the protocol. The test builds put a hook in front of each of them: the
 * killer dies there, the explorer switches to another thread there. */
#ifdef RING_TEST_POINTS
void ring_test_point(void);
#define RING_POINT() ring_test_point()
#else
#define RING_POINT() ((void)0)
#endif

#define ring_load(word) (RING_POINT(), atomic_load(word))
#define ring_store(word, value) (RING_POINT(), atomic_store(word, value))
#define ring_swap(word, value) (RING_POINT(), atomic_exchange(word, value))
#define ring_add(word, value) (RING_POINT(), atomic_fetch_add(word, value))
#define ring_cas(word, expected, value) (RING_POINT(), atomic_compare_exchange_strong(word, expected, value))

#define RING_LAP_MASK UINT64_C(0x7fffffff)

static inline uint64_t ring_control(uint64_t lap, enum ring_status status, uint32_t peer, uint32_t end) {
    return (lap & RING_LAP_MASK) << 33 | (uint64_t)status << 30 | (uint64_t)peer << 20 | end;
}
static inline uint64_t ring_lap_in(uint64_t control) { return control >> 33; }
static inline enum ring_status ring_status_in(uint64_t control) { return (enum ring_status)(control >> 30 & 7); }
static inline uint32_t ring_peer_in(uint64_t control) { return (uint32_t)(control >> 20 & 1023); }
static inline uint32_t ring_end_in(uint64_t control) { return (uint32_t)(control & (RING_ARENA_UNITS_MAX - 1)); }
static inline uint64_t ring_lap_of(const struct ring *r, uint64_t seq) { return seq >> r->head_shift & RING_LAP_MASK; }
static inline struct ring_head *ring_head_of(const struct ring *r, uint64_t seq) {
    return &r->heads[seq & (r->head_count - 1)];
}
static inline bool ring_status_is_final(enum ring_status status) {
    return status == RING_HAS_READ || status == RING_FLUSH || status == RING_SKIPPED;
}
static inline uint32_t ring_units_for(uint64_t length) {
    return length == 0 ? 1 : (uint32_t)((length + RING_UNIT - 1) / RING_UNIT);
}
static inline uint32_t ring_distance(const struct ring *r, uint32_t from, uint32_t to) {
    return to >= from ? to - from : to + r->arena_units - from;
}

#endif
