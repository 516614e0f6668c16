/*
 * Sleeping and waking: how a consumer waits for records, a producer for room, and how neither misses the other.
 * Called by both sides through ring.h; touches the futex words of the ring and, of the handle, the wakeups and the strategy.
 *
 * The sleeper raises a flag, then looks once more, then sleeps; the waker changes the ring, then looks at the flag. All
 * four are sequentially consistent, so at least one of them sees the other. Only a raised flag costs a system call, and the
 * waker that takes it down is the only one that pays. Nobody sleeps longer than a slice: a peer may be killed between
 * its change and its wake-up.
 */
#include "ring.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_US 20000      /* an idle sleeper looks up this often */
#define STUCK_SLICE_US 5000 /* the same while a record of the window is unfinished */
#define ASIDE_US_MAX 300        /* the core was away for a reader's turn, no longer */
#define ASIDE_APART_US 200      /* who wakes its reader more often is in full flow, and keeps the core */
#define ASIDE_PAUSE_US_MIN 10000
#define ASIDE_PAUSE_US_MAX 1000000

int64_t ring_now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int futex_sleep(_Atomic uint32_t *word, uint32_t seen, int64_t sleep_us) {
    struct timespec span = {.tv_sec = sleep_us / 1000000, .tv_nsec = sleep_us % 1000000 * 1000};
    if (syscall(SYS_futex, word, FUTEX_WAIT, seen, &span, NULL, 0) == -1 && errno == EINTR) {
        return -1;
    }
    return 0;
}

static void futex_wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

static bool wake(_Atomic uint32_t *flag, _Atomic uint32_t *word) {
    if (ring_load(flag) == 0 || ring_swap(flag, 0) == 0) {
        return false;
    }
    ring_add(word, 1);
    futex_wake_all(word);
    return true;
}

bool ring_wake_consumers(struct ring *r) { return wake(&r->file->sleeping, &r->file->wake_seq); }

/* The kernel likes to put the one who is woken on the waker's own core, where it would wait for the waker's next sleep. A
 * reader's turn is short; where the core was away for longer, others want it too, and it is not offered again for a
 * while: twice as long each time, half as long whenever it came back soon. */
void ring_step_aside(struct ring *r) {
    int64_t begun_us = ring_now_us();
    bool in_flow = begun_us - r->woke_us < ASIDE_APART_US;
    r->woke_us = begun_us;
    if (in_flow || begun_us < r->aside_from_us) {
        return;
    }
    sched_yield();
    int64_t now_us = ring_now_us();
    if (now_us - begun_us <= ASIDE_US_MAX) {
        r->aside_pause_us /= 2;
        return;
    }
    int64_t pause_us = 2 * r->aside_pause_us;
    pause_us = pause_us < ASIDE_PAUSE_US_MIN ? ASIDE_PAUSE_US_MIN : pause_us;
    r->aside_pause_us = pause_us < ASIDE_PAUSE_US_MAX ? pause_us : ASIDE_PAUSE_US_MAX;
    r->aside_from_us = now_us + r->aside_pause_us;
}

/* While the consumer is busy, producers are woken only at half-empty: waking them for each freed record would have the two
 * sides trade the processor once per batch. */
void ring_wake_producers(struct ring *r, bool now) {
    if (ring_load(&r->file->space_waiting) == 0) {
        return;
    }
    if (now || ring_used_units(r) <= ring_load(&r->file->wrap_units) / 2) {
        wake(&r->file->space_waiting, &r->file->space_seq);
    }
}

void ring_wakeup(struct ring *r) {
    ring_add(&r->file->wakeups, 1);
    ring_wake_consumers(r);
}

void ring_set_patient(struct ring *r, bool patient) {
    if (patient != r->patient) {
        r->patient = patient;
        ring_store(&r->file->patient, patient ? 1 : 0);
    }
}

static bool has_news(struct ring *r) {
    uint32_t wakeups = ring_load(&r->file->wakeups);
    if (wakeups != r->wakeups_seen) {
        r->wakeups_seen = wakeups;
        return true;
    }
    return ring_has_ready(r) || atomic_load(&r->closing) != 0;
}

/* Looks until news, the deadline, or the end of the strategy's spinning time. Whoever else can run does so between two looks:
 * there may be more workers than cores, and a spinner must not keep the one it waits for from its core. */
static bool spin(struct ring *r, int64_t deadline_us) {
    int64_t until_us = r->strategy == RING_WAIT_BUSY ? deadline_us : ring_now_us() + r->spin_us;
    until_us = until_us < deadline_us ? until_us : deadline_us;
    for (;;) {
        if (has_news(r)) {
            return true;
        }
        int64_t now_us = ring_now_us();
        if (now_us >= until_us) {
            return false;
        }
        ring_maintain(r, now_us);
        sched_yield();
    }
}

static int64_t slice_us(struct ring *r, int64_t now_us, int64_t deadline_us) {
    bool unfinished = ring_load(&r->file->left) != ring_frontier(r);
    int64_t slice = unfinished ? STUCK_SLICE_US : SLICE_US;
    return deadline_us - now_us < slice ? deadline_us - now_us : slice;
}

int ring_wait(struct ring *r, int64_t deadline_us) {
    if (has_news(r)) {
        return 1;
    }
    ring_advance_left(r);
    ring_wake_producers(r, true);
    if (r->strategy != RING_WAIT_FUTEX && spin(r, deadline_us)) {
        return 1;
    }
    for (;;) {
        uint32_t seen = ring_load(&r->file->wake_seq);
        ring_store(&r->file->sleeping, 1);
        if (has_news(r)) {
            return 1;
        }
        int64_t now_us = ring_now_us();
        if (now_us >= deadline_us) {
            return 0;
        }
        if (futex_sleep(&r->file->wake_seq, seen, slice_us(r, now_us, deadline_us)) == -1) {
            return -1;
        }
        if (has_news(r)) { /* handed out before any housekeeping, and without raising the flag for nobody */
            return 1;
        }
        ring_maintain(r, ring_now_us());
    }
}

/* Reserves as soon as there is room. RING_NOTHING: a signal came, call again after handling it. */
enum ring_result ring_reserve_wait(struct ring *r, uint32_t units, struct ring_ticket *ticket, int64_t deadline_us) {
    enum ring_result result = ring_reserve(r, units, ticket);
    while (result == RING_FULL && atomic_load(&r->closing) == 0) {
        uint32_t seen = ring_load(&r->file->space_seq);
        ring_store(&r->file->space_waiting, 1);
        result = ring_reserve(r, units, ticket);
        int64_t left_us = deadline_us - ring_now_us();
        if (result != RING_FULL || left_us <= 0) {
            break;
        }
        if (futex_sleep(&r->file->space_seq, seen, left_us < SLICE_US ? left_us : SLICE_US) == -1) {
            return RING_NOTHING;
        }
    }
    return result;
}
