/*
 * The ring under load: producers send numbered messages of varying size with contents that can be recomputed, consumers
 * check every byte, the order of each producer, and (in one shared bitmap) that each message came exactly once.
 *
 *   ring_stress threads|processes producers messages_each consumers [ring_bytes]
 *
 * With threads the same code runs under ThreadSanitizer, AddressSanitizer and UBSan. Exit code 1: something was lost,
 * doubled, torn or out of order.
 */
#include "../../native/ring.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEERS_MAX 16
#define QUIET_US 20000000 /* nothing for this long means a message is lost or a wake-up was missed */
#define MESSAGE_BYTES_MIN 16u

struct totals {
    _Atomic uint64_t received, doubled, torn, disordered, stalled, full_waits;
    _Atomic uint8_t seen[]; /* one bit per message */
};

static uint32_t producers, consumers;
static uint64_t messages_each, ring_bytes = 1 << 20;
static struct totals *totals;
static char path[64];
static bool threads;
static struct ring base;

static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Mostly a hundred bytes or so, now and then a long one. */
static uint32_t length_of(uint64_t id) {
    uint64_t draw = mix(id ^ UINT64_C(0x5bd1e995));
    uint32_t span = draw % 200 == 0 ? (uint32_t)(ring_bytes / 16) : 200;
    return MESSAGE_BYTES_MIN + (uint32_t)((draw >> 16) % span);
}

static uint64_t checksum(const unsigned char *data, uint32_t length) {
    uint64_t sum = length;
    for (uint32_t at = 0; at + 8 <= length; at += 8) {
        uint64_t word;
        memcpy(&word, data + at, 8);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return sum;
}

/* id, contents made from it, checksum over both. */
static void fill(unsigned char *body, uint64_t id, uint32_t length) {
    uint64_t state = mix(id + 1);
    memcpy(body, &id, 8);
    for (uint32_t at = 8; at + 8 < length; at += 8) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        uint32_t count = length - 8 - at < 8 ? length - 8 - at : 8;
        memcpy(body + at, &state, count);
    }
    uint64_t sum = checksum(body, length - 8);
    memcpy(body + length - 8, &sum, 8);
}

static bool is_whole(const unsigned char *body, uint32_t length, uint64_t *id) {
    uint64_t sum;
    if (length < MESSAGE_BYTES_MIN) {
        return false;
    }
    memcpy(id, body, 8);
    memcpy(&sum, body + length - 8, 8);
    return *id < producers * messages_each && length == length_of(*id) && sum == checksum(body, length - 8);
}

/* Threads share one mapping, each with a place and a window of its own: the sanitizers see races by address. */
static void attach(struct ring *r) {
    char why[160] = "no place";
    if (threads) {
        *r = base;
        if (ring_join(r) == RING_OK) {
            return;
        }
    }
    if (threads || ring_attach(r, path, why, sizeof why) == -1) {
        fprintf(stderr, "attach: %s\n", why);
        exit(2);
    }
}

static void detach(struct ring *r) {
    if (threads) {
        ring_leave(r);
    } else {
        ring_unmap(r);
    }
}

static void *produce(void *argument) {
    uint64_t first = (uint64_t)(uintptr_t)argument * messages_each, waits = 0;
    struct ring r;
    attach(&r);
    for (uint64_t id = first; id < first + messages_each; id++) {
        uint32_t length = length_of(id);
        struct ring_ticket ticket;
        while (ring_reserve(&r, ring_units_for(length), &ticket) != RING_OK) {
            waits++;
            if (ring_reserve_wait(&r, ring_units_for(length), &ticket, ring_now_us() + QUIET_US) == RING_OK) {
                break;
            }
        }
        fill(ticket.body, id, length);
        ring_publish(&r, &ticket, (uint32_t)(id % 97), length, RING_PLAIN);
    }
    atomic_fetch_add(&totals->full_waits, waits);
    detach(&r);
    return NULL;
}

static void book(const struct ring_view *view, uint64_t last[PEERS_MAX]) {
    uint64_t id;
    if (!is_whole(view->body, view->length, &id) || view->target != id % 97) {
        atomic_fetch_add(&totals->torn, 1);
        return;
    }
    uint64_t producer = id / messages_each;
    if (last[producer] > id) {
        atomic_fetch_add(&totals->disordered, 1);
    }
    last[producer] = id + 1;
    if (atomic_fetch_or(&totals->seen[id / 8], (uint8_t)(1u << id % 8)) >> id % 8 & 1) {
        atomic_fetch_add(&totals->doubled, 1);
    }
}

static void *consume(void *argument) {
    uint64_t last[PEERS_MAX] = {0}, all = producers * messages_each;
    struct ring r;
    (void)argument;
    attach(&r);
    while (atomic_load(&totals->received) < all) {
        struct ring_view view;
        uint32_t batch = 0;
        while (batch < 64 && ring_take(&r, &view) == RING_OK) {
            book(&view, last);
            ring_done(&r, view.seq);
            batch++;
        }
        ring_advance_left(&r);
        ring_maintain(&r, ring_now_us());
        if (atomic_fetch_add(&totals->received, batch) + batch >= all) {
            break;
        }
        if (batch == 0 && ring_wait(&r, ring_now_us() + QUIET_US) == 0) {
            atomic_fetch_add(&totals->stalled, 1);
            break;
        }
    }
    ring_wakeup(&r); /* the other consumers may sleep on an empty ring */
    detach(&r);
    return NULL;
}

static void run_threads(void) {
    pthread_t ids[2 * PEERS_MAX];
    for (uint32_t i = 0; i < producers + consumers; i++) {
        void *argument = (void *)(uintptr_t)i;
        if (pthread_create(&ids[i], NULL, i < producers ? produce : consume, argument) != 0) {
            exit(2);
        }
    }
    for (uint32_t i = 0; i < producers + consumers; i++) {
        pthread_join(ids[i], NULL);
    }
}

static void run_processes(void) {
    for (uint32_t i = 0; i < producers + consumers; i++) {
        pid_t pid = fork();
        if (pid == -1) {
            exit(2);
        }
        if (pid == 0) {
            (i < producers ? produce : consume)((void *)(uintptr_t)i);
            _exit(0);
        }
    }
    int status;
    while (wait(&status) > 0) {
        if (status != 0) {
            exit(2);
        }
    }
}

static uint64_t lost_count(void) {
    uint64_t lost = 0;
    for (uint64_t id = 0; id < producers * messages_each; id++) {
        lost += (atomic_load(&totals->seen[id / 8]) >> id % 8 & 1) == 0;
    }
    return lost;
}

static int report(const char *mode, double seconds) {
    uint64_t all = producers * messages_each, lost = lost_count();
    printf("%s: %u producers x %llu -> %u consumers, ring %llu KiB: lost %llu doubled %llu torn %llu out-of-order %llu "
           "stalled %llu; %.1f s, %.2f M messages/s, %llu waits for room\n",
           mode, producers, (unsigned long long)messages_each, consumers, (unsigned long long)ring_bytes >> 10,
           (unsigned long long)lost, (unsigned long long)totals->doubled, (unsigned long long)totals->torn,
           (unsigned long long)totals->disordered, (unsigned long long)totals->stalled, seconds, (double)all / seconds / 1e6,
           (unsigned long long)totals->full_waits);
    return lost + totals->doubled + totals->torn + totals->disordered + totals->stalled == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: ring_stress threads|processes producers messages_each consumers [ring_bytes]\n");
        return 2;
    }
    threads = strcmp(argv[1], "threads") == 0;
    producers = (uint32_t)atoi(argv[2]);
    messages_each = strtoull(argv[3], NULL, 10);
    consumers = (uint32_t)atoi(argv[4]);
    ring_bytes = argc > 5 ? strtoull(argv[5], NULL, 10) : ring_bytes;
    if (producers > PEERS_MAX || consumers > PEERS_MAX) {
        return 2;
    }
    size_t bytes = sizeof *totals + producers * messages_each / 8 + 1;
    totals = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(path, sizeof path, "/dev/shm/tailrace-stress-%d", (int)getpid());
    char why[160];
    if (totals == MAP_FAILED || ring_create(&base, path, ring_bytes, ring_bytes, why, sizeof why) == -1) {
        return 2;
    }
    int64_t began_us = ring_now_us();
    if (threads) {
        run_threads();
    } else {
        run_processes();
    }
    double seconds = (double)(ring_now_us() - began_us) / 1e6;
    ring_unmap(&base);
    unlink(path);
    return report(argv[1], seconds);
}
