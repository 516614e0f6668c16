/*
 * An exhaustive search of the ring's protocol: the C code of native/ itself runs in small coroutines that stop in front of
 * every shared access; every order of these steps is tried, with a crash of any process in front of any step.
 *
 * A state is the shared memory, each coroutine's live stack and the oracle's books; states seen before (128-bit hash) are
 * not entered again. Memory is sequentially consistent here, as every shared access of the protocol is declared to be.
 *
 *   ring_explore full|quick|NUMBER [crashes]     all scenarios, the small ones, or one. Exit code 1: an assertion failed.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long explore_syscall(long number, ...);
static int explore_clock(int clock, struct timespec *now);
static int explore_kill(int pid, int number);
static int explore_open(const char *path, int flags);
static int explore_getpid(void);

/* The protocol is compiled into this file with its system calls replaced. */
#define RING_TEST_POINTS
#define RING_HOLES_MAX 4
#define RING_WARM_UNITS 2u
#define RING_PEERS 16u
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#define syscall explore_syscall
#define clock_gettime explore_clock
#define kill explore_kill
#define open explore_open
#define getpid explore_getpid
#include "../../native/ring_protocol.c"
#include "../../native/ring_wait.c"
#include "../../native/ring_peers.c"
#undef syscall
#undef clock_gettime
#undef kill
#undef open
#undef getpid

#ifndef __x86_64__
#error "the explorer switches coroutines with x86-64 assembly"
#endif

#define THREADS_MAX 4
#define STACK_BYTES 16384
#define MESSAGES_MAX 8
#define HEADS_MAX 8
#define UNITS_MAX 8
#define DRAINER THREADS_MAX
#define PATIENT_US 1000

enum life { RUNNING, SLEEPING, FINISHED, CRASHED };

/* What the oracle knows of message m: how many bodies were finished reading, and whether publish returned. */
struct books {
    unsigned char finished[MESSAGES_MAX];
    unsigned char published[MESSAGES_MAX];
    unsigned char last_seen[THREADS_MAX + 1][2];
    unsigned char life[THREADS_MAX];
    unsigned char crashes;
    unsigned char consumer_crashed;
    unsigned char timed_out[THREADS_MAX];
    void *sleeps_on[THREADS_MAX];
};

struct scenario {
    const char *name;
    int producers, consumers, messages_each, takes_each, crashes;
    uint32_t heads, units;
    uint32_t sizes[4]; /* units of a producer's successive messages */
    bool joins;        /* producers take their places in the peer table when they start, also those of the dead */
    bool waits;        /* consumers sleep on the futex until all is read; otherwise they try takes_each times */
    bool calm;         /* messages can wait, and the consumer is patient in every other wait, which may time out */
};

static struct {
    _Alignas(64) unsigned char memory[sizeof(struct ring_file) + HEADS_MAX * sizeof(struct ring_head)];
    _Alignas(64) unsigned char arena[UNITS_MAX * RING_UNIT];
} shared;
static struct ring handles[THREADS_MAX + 1];
static _Alignas(64) unsigned char stacks[THREADS_MAX][STACK_BYTES];
static void *stack_pointers[THREADS_MAX];
static struct books books;
static const struct scenario *plan;
static int current = -1;
static void *scheduler_stack;

static void fail(const char *what) {
    printf("FAILED %s: %s\n", plan->name, what);
    exit(1);
}

static void check(bool holds, const char *what) {
    if (!holds) {
        fail(what);
    }
}

/* ---- coroutines ------------------------------------------------------------------------------------------------ */

/* Pushes the callee-saved registers, stores the stack pointer in *from, and goes on where `to` was left. */
#pragma GCC diagnostic ignored "-Wunused-parameter" /* the assembly below uses them by register */
__attribute__((naked, noinline)) static void switch_stack(void **from, void *to) {
    __asm__("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
            "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
            "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}

static void yield_now(void) { switch_stack(&stack_pointers[current], scheduler_stack); }

void ring_test_point(void) {
    if (current >= 0) {
        yield_now();
    }
}

static long explore_syscall(long number, ...) {
    __builtin_va_list args;
    __builtin_va_start(args, number);
    _Atomic uint32_t *word = __builtin_va_arg(args, _Atomic uint32_t *);
    int operation = __builtin_va_arg(args, int);
    uint32_t value = __builtin_va_arg(args, uint32_t);
    __builtin_va_end(args);
    if (current < 0) {
        return 0;
    }
    yield_now(); /* the call itself is one atomic step */
    if (operation == FUTEX_WAIT && *word == value) {
        books.life[current] = SLEEPING;
        books.sleeps_on[current] = word;
        yield_now();
    }
    for (int i = 0; operation == FUTEX_WAKE && i < THREADS_MAX; i++) {
        if (books.life[i] == SLEEPING && books.sleeps_on[i] == word) {
            books.life[i] = RUNNING;
            books.sleeps_on[i] = NULL;
        }
    }
    return 0;
}

/* Time stands still, but for one whose sleep has ended by itself: to him it is late. */
static int explore_clock(int clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){.tv_nsec = current >= 0 && books.timed_out[current] ? 2 * PATIENT_US * 1000 : 0};
    return 0;
}

/* A process's pid is its number plus one. It is dead when the scheduler crashed it; /proc tells nothing more. */
static int explore_getpid(void) { return current + 1; }

static int explore_kill(int pid, int number) {
    (void)number;
    errno = ESRCH;
    return pid <= THREADS_MAX && books.life[pid - 1] == CRASHED ? -1 : 0;
}

static int explore_open(const char *path, int flags) {
    (void)path;
    (void)flags;
    errno = EACCES;
    return -1;
}

/* Housekeeping that is due, and has found the left side where it was the last time. */
static void maintain(struct ring *r) {
    r->maintained_left = ring_load(&r->file->left);
    ring_maintain(r, MAINTAIN_EVERY_US);
    r->maintained_us = 0;
}

/* ---- the processes --------------------------------------------------------------------------------------------- */

static unsigned char pattern(int message) { return (unsigned char)(0x51 + 7 * message); }

static void produce(int self) {
    struct ring *r = &handles[self];
    if (plan->joins) {
        check(take_place(r, (uint64_t)self + 1), "no place is left");
    }
    for (int i = 0; i < plan->messages_each; i++) {
        int message = self * plan->messages_each + i;
        uint32_t units = plan->sizes[i % 4], bytes = units * RING_UNIT;
        struct ring_ticket ticket;
        enum ring_result result =
            plan->waits ? ring_reserve_wait(r, units, &ticket, INT64_MAX) : ring_reserve(r, units, &ticket);
        if (result == RING_FULL) {
            return; /* back-pressure; the drain checks that this is not for ever */
        }
        memset(ticket.body, pattern(message), bytes / 2);
        ring_test_point();
        memset(ticket.body + bytes / 2, pattern(message), bytes / 2);
        ring_test_point();
        for (uint32_t at = 0; at < bytes; at++) {
            check(ticket.body[at] == pattern(message), "someone wrote into a body that was being written");
        }
        if (plan->calm) {
            ring_publish_calmly(r, &ticket, (uint32_t)message, bytes, RING_PLAIN);
        } else {
            ring_publish(r, &ticket, (uint32_t)message, bytes, RING_PLAIN);
        }
        books.published[message] = 1;
    }
}

static void check_body(const struct ring_view *view) {
    check(view->length == plan->sizes[view->target % (uint32_t)plan->messages_each % 4] * RING_UNIT, "a length is wrong");
    for (uint32_t at = 0; at < view->length; at++) {
        check(view->body[at] == pattern((int)view->target), "a torn body was read");
    }
}

static void consume_one(int self, const struct ring_view *view) {
    int producer = (int)view->target / plan->messages_each, number = (int)view->target % plan->messages_each + 1;
    check_body(view);
    ring_test_point();
    check_body(view);
    check(number > books.last_seen[self][producer] || books.consumer_crashed, "a producer's messages came out of order");
    books.last_seen[self][producer] = (unsigned char)number;
    check(ring_done(&handles[self], view->seq), "a claim was taken away from a live consumer");
    check(++books.finished[view->target] == 1, "a message was finished twice");
    ring_advance_left(&handles[self]);
}

static int finished_count(void) {
    int count = 0;
    for (int i = 0; i < MESSAGES_MAX; i++) {
        count += books.finished[i];
    }
    return count;
}

/* A worker is patient where it looks up soon by itself, and takes that back before it sleeps for as long as it takes. */
static void wait_for_news(struct ring *r, bool patient) {
    ring_set_patient(r, patient);
    ring_wait(r, patient ? PATIENT_US : INT64_MAX);
    books.timed_out[current] = 0;
}

static void consume(int self) {
    struct ring_view view;
    int all = plan->producers * plan->messages_each;
    bool patient = false;
    for (int attempt = 0; plan->waits ? finished_count() < all : attempt < plan->takes_each; attempt++) {
        enum ring_result result = ring_take(&handles[self], &view);
        check(result != RING_CORRUPT, "a record did not fit its place");
        if (result == RING_OK) {
            consume_one(self, &view);
        } else if (plan->waits) {
            attempt = 0;
            patient = plan->calm && !patient;
            wait_for_news(&handles[self], patient);
        } else {
            maintain(&handles[self]);
        }
    }
    /* Others may sleep although all is read: the last one out wakes them, as a worker does at the end of a query. */
    if (plan->waits) {
        ring_wakeup(&handles[self]);
    }
}

static void thread_main(void) {
    int self = current;
    if (self < plan->producers) {
        produce(self);
    } else {
        consume(self);
    }
    books.life[self] = FINISHED;
    yield_now();
    fail("a finished process was run");
}

/* ---- states ---------------------------------------------------------------------------------------------------- */

struct snapshot {
    size_t bytes;
    unsigned char data[];
};

static unsigned char scratch[THREADS_MAX * STACK_BYTES + 65536];

static size_t put(size_t at, const void *data, size_t bytes) {
    memcpy(scratch + at, data, bytes);
    return at + bytes;
}

static size_t peers_bytes(void) { return 8 * sizeof(uint64_t); }
static size_t shared_begin(void) { return offsetof(struct ring_file, frontier_hint); }
static size_t shared_bytes(void) { return offsetof(struct ring_file, skipped_count) - shared_begin(); }

static size_t save(void) {
    size_t at = put(0, shared.memory + shared_begin(), shared_bytes());
    at = put(at, shared.memory + offsetof(struct ring_file, peers), peers_bytes());
    at = put(at, shared.memory + sizeof(struct ring_file), plan->heads * sizeof(struct ring_head));
    at = put(at, shared.arena, plan->units * RING_UNIT);
    at = put(at, &books, sizeof books);
    for (int i = 0; i < plan->producers + plan->consumers; i++) {
        at = put(at, &handles[i], sizeof handles[i]);
        size_t used = books.life[i] <= SLEEPING ? (size_t)(stacks[i] + STACK_BYTES - (unsigned char *)stack_pointers[i]) : 0;
        at = put(at, &used, sizeof used);
        at = put(at, stacks[i] + STACK_BYTES - used, used);
    }
    while (at % 8 != 0) {
        scratch[at++] = 0;
    }
    return at;
}

static size_t get(const unsigned char *from, size_t at, void *data, size_t bytes) {
    memcpy(data, from + at, bytes);
    return at + bytes;
}

static void restore(const struct snapshot *snapshot) {
    size_t at = get(snapshot->data, 0, shared.memory + shared_begin(), shared_bytes());
    at = get(snapshot->data, at, shared.memory + offsetof(struct ring_file, peers), peers_bytes());
    at = get(snapshot->data, at, shared.memory + sizeof(struct ring_file), plan->heads * sizeof(struct ring_head));
    at = get(snapshot->data, at, shared.arena, plan->units * RING_UNIT);
    at = get(snapshot->data, at, &books, sizeof books);
    for (int i = 0; i < plan->producers + plan->consumers; i++) {
        size_t used;
        at = get(snapshot->data, at, &handles[i], sizeof handles[i]);
        at = get(snapshot->data, at, &used, sizeof used);
        stack_pointers[i] = stacks[i] + STACK_BYTES - used;
        at = get(snapshot->data, at, stack_pointers[i], used);
    }
}

static struct snapshot *keep(size_t bytes) {
    struct snapshot *snapshot = malloc(sizeof *snapshot + bytes);
    check(snapshot != NULL, "out of memory");
    snapshot->bytes = bytes;
    memcpy(snapshot->data, scratch, bytes);
    return snapshot;
}

struct key {
    uint64_t a, b;
};

static struct key *seen;
static size_t seen_room, seen_count;

static struct key hash_scratch(size_t bytes) {
    uint64_t a = 0x9e3779b97f4a7c15u, b = 0xc2b2ae3d27d4eb4fu;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, scratch + i, 8);
        a = (a ^ word) * 0xff51afd7ed558ccdu;
        a ^= a >> 32;
        b = (b + word) * 0xc4ceb9fe1a85ec53u;
        b ^= b >> 29;
    }
    return (struct key){a | 1, b};
}

static bool insert_into(struct key *table, size_t room, struct key key) {
    size_t at = key.b & (room - 1);
    while (table[at].a != 0) {
        if (table[at].a == key.a && table[at].b == key.b) {
            return false;
        }
        at = (at + 1) & (room - 1);
    }
    table[at] = key;
    return true;
}

static bool is_new(struct key key) {
    if (seen_count * 2 >= seen_room) {
        size_t room = seen_room == 0 ? 1 << 20 : seen_room * 2;
        struct key *table = calloc(room, sizeof *table);
        check(table != NULL, "out of memory");
        for (size_t i = 0; i < seen_room; i++) {
            if (seen[i].a != 0) {
                insert_into(table, room, seen[i]);
            }
        }
        free(seen);
        seen = table;
        seen_room = room;
    }
    bool fresh = insert_into(seen, seen_room, key);
    seen_count += fresh;
    return fresh;
}

/* ---- search ---------------------------------------------------------------------------------------------------- */

static unsigned long steps, ends, depth_max;

static void run_step(int thread) {
    current = thread;
    switch_stack(&scheduler_stack, stack_pointers[thread]);
    current = -1;
    steps++;
}

/* Nobody can move any more: what is left must be readable, once, and the ring must come out empty and usable. */
static void check_end(void) {
    struct ring_view view;
    struct ring *r = &handles[DRAINER];
    ends++;
    for (int i = 0; i < plan->producers + plan->consumers; i++) {
        check(books.life[i] != SLEEPING, "a wake-up was lost: a process sleeps and nobody is left to wake it");
    }
    maintain(r);
    while (ring_take(r, &view) == RING_OK) {
        consume_one(DRAINER, &view);
        maintain(r);
    }
    for (int i = 0; i < plan->producers * plan->messages_each; i++) {
        check(!books.published[i] || books.finished[i] == 1, "a published message was lost");
    }
    check(atomic_load(&r->file->left) == ring_frontier(r), "a record was left behind");
    check(ring_used_units(r) == 0, "space was not given back");
    struct ring_ticket ticket;
    check(ring_reserve(r, plan->units / 2, &ticket) == RING_OK, "the ring is not usable afterwards");
}

static void search(unsigned long depth);

static void enter(const struct snapshot *from, unsigned long depth) {
    size_t bytes = save();
    if (is_new(hash_scratch(bytes))) {
        search(depth + 1);
    }
    restore(from);
}

static void search(unsigned long depth) {
    struct snapshot *here = keep(save());
    bool moved = false;
    depth_max = depth > depth_max ? depth : depth_max;
    for (int i = 0; i < plan->producers + plan->consumers; i++) {
        if (books.life[i] == RUNNING) {
            moved = true;
            run_step(i);
            enter(here, depth);
        }
        if (books.life[i] == SLEEPING && handles[i].patient) {
            moved = true;
            books.life[i] = RUNNING;
            books.sleeps_on[i] = NULL;
            books.timed_out[i] = 1;
            enter(here, depth);
        }
        if (books.life[i] <= SLEEPING && books.crashes < plan->crashes) {
            books.life[i] = CRASHED;
            books.crashes++;
            books.consumer_crashed |= i >= plan->producers;
            enter(here, depth);
        }
    }
    if (!moved) {
        check_end();
        restore(here);
    }
    free(here);
}

static void start(void) {
    memset(&shared, 0, sizeof shared);
    memset(&books, 0, sizeof books);
    memset(stacks, 0, sizeof stacks);
    for (int i = 0; i <= THREADS_MAX; i++) {
        struct ring *r = &handles[i];
        memset(r, 0, sizeof *r);
        r->file = (struct ring_file *)shared.memory;
        r->heads = (struct ring_head *)(shared.memory + sizeof(struct ring_file));
        r->arena = shared.arena;
        r->head_count = plan->heads;
        r->head_shift = (uint32_t)__builtin_ctz(plan->heads);
        r->arena_units = plan->units;
        r->peer = (uint32_t)i;
        r->right = plan->heads;
        bool joins_later = plan->joins && i < plan->producers;
        atomic_store(&r->file->peers[i], joins_later ? 0 : (uint64_t)i + 1);
    }
    atomic_store(&handles[0].file->wrap_units, plan->units);
    atomic_store(&handles[0].file->left, plan->heads);
    atomic_store(&handles[0].file->frontier_hint, plan->heads);
    for (int i = 0; i < THREADS_MAX; i++) {
        void **top = (void **)(stacks[i] + STACK_BYTES) - 2; /* as after a call: the frame above is 16-byte aligned */
        *top = (void *)thread_main;
        stack_pointers[i] = top - 6;
    }
}

static void explore(const struct scenario *scenario) {
    plan = scenario;
    free(seen);
    seen = NULL;
    seen_room = seen_count = 0;
    steps = ends = depth_max = 0;
    clock_t began = clock();
    start();
    search(0);
    printf("%-42s crashes %d: %10zu states %11lu steps %9lu ends, depth %lu, %.1f s: all assertions hold\n", plan->name,
           plan->crashes, seen_count, steps, ends, depth_max, (double)(clock() - began) / CLOCKS_PER_SEC);
    fflush(stdout);
}

static struct scenario scenarios[] = {
    {"1 x 1 -> 2, quick", 1, 2, 1, 1, 1, 4, 4, {2, 1, 1, 1}, false, false, false},
    {"2 x 1 -> 1, quick", 2, 1, 1, 2, 1, 4, 4, {2, 1, 1, 1}, false, false, false},
    {"no lost wake-up, 1 x 3 -> 1, quick", 1, 1, 3, 0, 0, 4, 4, {2, 2, 1, 1}, false, true, false},
    {"second lap of the heads, 1 x 5 -> 1", 1, 1, 5, 0, 0, 4, 8, {1, 1, 1, 1}, false, true, false},
    {"no lost wake-up, 2 x 1 -> 1", 2, 1, 1, 0, 0, 4, 4, {2, 2, 1, 1}, false, true, false},
    {"1 x 2 -> 2", 1, 2, 2, 3, 1, 4, 4, {1, 2, 1, 1}, false, false, false},
    {"2 x 2 -> 1", 2, 1, 2, 3, 1, 4, 4, {1, 2, 1, 1}, false, false, false},
    {"2 x 1 -> 2", 2, 2, 1, 2, 1, 4, 4, {2, 1, 1, 1}, false, false, false},
    {"2 x 1 -> 1, place of the dead, quick", 2, 1, 1, 2, 1, 4, 4, {1, 1, 1, 1}, true, false, false},
    {"2 x 1 -> 2, place of the dead", 2, 2, 1, 1, 1, 4, 4, {1, 1, 1, 1}, true, false, false},
    {"patience, 1 x 2 -> 1, quick", 1, 1, 2, 0, 0, 4, 4, {2, 1, 1, 1}, false, true, true},
};

int main(int argc, char **argv) {
    int count = (int)(sizeof scenarios / sizeof *scenarios);
    if (argc < 2) {
        fprintf(stderr, "usage: ring_explore full|quick|NUMBER [crashes]\n");
        return 2;
    }
    for (int i = 0; i < count; i++) {
        scenarios[i].crashes = argc > 2 ? atoi(argv[2]) : scenarios[i].crashes;
        bool quick = strstr(scenarios[i].name, "quick") != NULL;
        bool named = argv[1][0] <= '9' && atoi(argv[1]) == i;
        if (named || strcmp(argv[1], "full") == 0 || (strcmp(argv[1], "quick") == 0 && quick)) {
            explore(&scenarios[i]);
        }
    }
    return 0;
}
