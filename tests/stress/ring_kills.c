/*
 * Killing and stopping processes of a ring between any two of their steps. A surviving producer and a surviving consumer
 * run all the time; victims attach one after another and meet their signal in front of a random shared access, or half way
 * through a body. Built with -DRING_TEST_POINTS.
 *
 *   ring_kills producer|consumer|stop rounds [p99_ms_max]
 *
 * Reported: how long after each death everything reserved before it was finished and new messages got through. Exit code 1:
 * a partial record was seen, a published message was lost or doubled, a live writer was skipped, or, if p99_ms_max is given,
 * that was exceeded or the maximum was over ten times as long.
 */
#include "../../native/ring.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES 65536
#define MESSAGES_MAX (UINT64_C(1) << 24) /* of the surviving producer */
#define ROUNDS_MAX 100000
#define STUCK_US 30000000
#define STOP_US 60000
#define POINTS_MAX 150 /* a send is about 15 steps, a take with its end about 12 */
#define STOP_MESSAGES 20u
#define VICTIM_BIT (UINT64_C(1) << 63)

enum seen { SEEN_BY_SURVIVOR = 1, SEEN_BY_VICTIM = 2 };

struct control {
    _Atomic uint32_t over;
    _Atomic int64_t died_us;
    _Atomic uint64_t published, received, torn, doubled, disordered;
    _Atomic uint32_t victim_published[ROUNDS_MAX], victim_received[ROUNDS_MAX];
    _Atomic uint8_t seen[MESSAGES_MAX];
};

static struct control *control;
static char path[64];
static long points_left = -1;
static int point_signal = SIGKILL;
static int64_t p99_us_max = INT64_MAX / 10;

void ring_test_point(void) {
    if (points_left >= 0 && points_left-- == 0) {
        atomic_store(&control->died_us, ring_now_us());
        kill(getpid(), point_signal);
    }
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t words_of(uint64_t id) { return 2 + (uint32_t)(mix(id) % 120); }

static void fill(unsigned char *body, uint64_t id) {
    uint32_t words = words_of(id);
    for (uint32_t i = 0; i < words; i++) {
        uint64_t word = i == 0 ? id : mix(id + i);
        memcpy(body + 8 * i, &word, 8);
        if (i == words / 2) {
            RING_POINT();
        }
    }
}

static bool is_whole(const struct ring_view *view, uint64_t *id) {
    memcpy(id, view->body, 8);
    for (uint32_t i = 1; i < words_of(*id) && 8 * i < view->length; i++) {
        uint64_t word;
        memcpy(&word, view->body + 8 * i, 8);
        if (word != mix(*id + i)) {
            return false;
        }
        if (i % 32 == 1) {
            RING_POINT();
        }
    }
    return view->length == 8 * words_of(*id) && view->target == (uint32_t)*id;
}

static void attach(struct ring *r) {
    char why[160];
    if (ring_attach(r, path, why, sizeof why) == -1) {
        fprintf(stderr, "attach: %s\n", why);
        _exit(2);
    }
}

static bool send_one(struct ring *r, uint64_t id) {
    struct ring_ticket ticket;
    uint32_t length = 8 * words_of(id);
    while (ring_reserve_wait(r, ring_units_for(length), &ticket, ring_now_us() + 100000) != RING_OK) {
        if (atomic_load(&control->over)) {
            return false;
        }
    }
    fill(ticket.body, id);
    ring_publish(r, &ticket, (uint32_t)id, length, RING_PLAIN);
    return true;
}

static void book(const struct ring_view *view, enum seen who) {
    uint64_t id;
    if (!is_whole(view, &id)) {
        atomic_fetch_add(&control->torn, 1);
        return;
    }
    if ((id & VICTIM_BIT) != 0) {
        uint32_t round = (uint32_t)(id >> 32 & 0x7fffffff), number = (uint32_t)id + 1;
        if (atomic_exchange(&control->victim_received[round], number) != number - 1) {
            atomic_fetch_add(&control->disordered, 1);
        }
        return;
    }
    uint8_t before = atomic_fetch_or(&control->seen[id], (uint8_t)who);
    if ((before & who) != 0) {
        atomic_fetch_add(&control->doubled, 1);
    }
    atomic_fetch_add(&control->received, 1);
}

static void survive_producing(void) {
    struct ring r;
    attach(&r);
    for (uint64_t id = 0; id < MESSAGES_MAX && !atomic_load(&control->over) && send_one(&r, id); id++) {
        atomic_store(&control->published, id + 1);
        usleep(50);
    }
    ring_unmap(&r);
}

static void consume_some(struct ring *r, enum seen who) {
    struct ring_view view;
    for (int i = 0; i < 16 && ring_take(r, &view) == RING_OK; i++) {
        RING_POINT(); /* a consumer holds its claim while it works: let some die here */
        book(&view, who);
        RING_POINT();
        ring_done(r, view.seq);
    }
    ring_advance_left(r);
    ring_maintain(r, ring_now_us());
}

static void survive_consuming(void) {
    struct ring r;
    attach(&r);
    while (!atomic_load(&control->over) || ring_has_ready(&r)) {
        consume_some(&r, SEEN_BY_SURVIVOR);
        ring_wait(&r, ring_now_us() + 100000);
    }
    consume_some(&r, SEEN_BY_SURVIVOR);
    ring_unmap(&r);
}

static void die_producing(uint32_t round, bool stop) {
    struct ring r;
    attach(&r);
    point_signal = stop ? SIGSTOP : SIGKILL;
    points_left = random() % POINTS_MAX;
    for (uint32_t i = 0; !stop || i < STOP_MESSAGES; i++) {
        send_one(&r, VICTIM_BIT | (uint64_t)round << 32 | i);
        atomic_store(&control->victim_published[round], i + 1);
    }
    ring_unmap(&r);
}

static void die_consuming(void) {
    struct ring r;
    attach(&r);
    points_left = random() % POINTS_MAX;
    for (;;) {
        consume_some(&r, SEEN_BY_VICTIM);
        ring_wait(&r, ring_now_us() + 10000);
    }
}

static pid_t start(void (*role)(void)) {
    pid_t pid = fork();
    if (pid == 0) {
        role();
        _exit(0);
    }
    return pid;
}

static pid_t start_victim(const char *mode, uint32_t round) {
    pid_t pid = fork();
    if (pid == 0) {
        srandom((unsigned)mix(round + 1));
        if (strcmp(mode, "consumer") == 0) {
            die_consuming();
        } else {
            die_producing(round, strcmp(mode, "stop") == 0);
        }
        _exit(0);
    }
    return pid;
}

/* Waits until the records reserved so far are finished and something newer got through. */
static bool is_flowing_again(struct ring *r) {
    uint64_t frontier = ring_frontier(r), received = atomic_load(&control->received);
    int64_t until_us = ring_now_us() + STUCK_US;
    while (atomic_load(&r->file->left) < frontier || atomic_load(&control->received) == received) {
        if (ring_now_us() > until_us) {
            return false;
        }
        usleep(200);
    }
    return true;
}

/* The victim stands still: the others' messages must pass it, and it must not be skipped. */
static void let_stand_still(pid_t victim, struct ring *r, uint64_t *passed) {
    int status;
    waitpid(victim, &status, WUNTRACED);
    if (!WIFSTOPPED(status)) {
        return; /* it had fewer steps than its point */
    }
    uint64_t skipped = atomic_load(&r->file->skipped_count), received = atomic_load(&control->received);
    usleep(STOP_US);
    *passed += atomic_load(&control->received) - received;
    if (atomic_load(&r->file->skipped_count) != skipped) {
        atomic_fetch_add(&control->torn, 1);
    }
    kill(victim, SIGCONT);
    waitpid(victim, &status, 0);
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t lost_count(uint32_t rounds, bool all_read_here) {
    uint64_t lost = 0;
    for (uint64_t id = 0; id < control->published; id++) {
        lost += control->seen[id] == 0;
    }
    for (uint32_t i = 0; all_read_here && i < rounds; i++) {
        lost += control->victim_received[i] < control->victim_published[i];
    }
    return lost;
}

static int report(const char *mode, uint32_t rounds, struct ring *r, int64_t *recovery_us, uint64_t passed) {
    bool stop = strcmp(mode, "stop") == 0;
    uint64_t lost = lost_count(rounds, strcmp(mode, "consumer") != 0);
    qsort(recovery_us, rounds, sizeof *recovery_us, compare);
    int64_t p99_us = recovery_us[(rounds * 99 - 1) / 100], max_us = recovery_us[rounds - 1];
    printf("%s: %u rounds, %llu messages: torn %llu lost %llu doubled %llu out-of-order %llu; skipped %llu released %llu",
           mode, rounds, (unsigned long long)control->received, (unsigned long long)control->torn, (unsigned long long)lost,
           (unsigned long long)control->doubled, (unsigned long long)control->disordered,
           (unsigned long long)r->file->skipped_count, (unsigned long long)r->file->released_count);
    if (stop) {
        printf("; %llu messages passed those who stood still\n", (unsigned long long)passed);
    } else {
        printf("; others go on after p50 %.1f p99 %.1f max %.1f ms\n", (double)recovery_us[rounds / 2] / 1e3,
               (double)p99_us / 1e3, (double)max_us / 1e3);
    }
    bool whole = control->torn + lost + control->doubled + control->disordered == 0 && (!stop || passed > 0);
    return whole && (stop || (p99_us <= p99_us_max && max_us <= 10 * p99_us_max)) ? 0 : 1;
}

static int run(const char *mode, uint32_t rounds, struct ring *r) {
    static int64_t recovery_us[ROUNDS_MAX];
    uint64_t passed = 0;
    pid_t producer = start(survive_producing), consumer = start(survive_consuming);
    for (uint32_t i = 0; i < rounds; i++) {
        pid_t victim = start_victim(mode, i);
        if (strcmp(mode, "stop") == 0) {
            let_stand_still(victim, r, &passed);
        } else {
            waitpid(victim, NULL, 0);
        }
        if (!is_flowing_again(r)) {
            printf("stuck after round %u\n", i);
            kill(producer, SIGKILL);
            kill(consumer, SIGKILL);
            return 1;
        }
        recovery_us[i] = ring_now_us() - atomic_load(&control->died_us);
    }
    atomic_store(&control->over, 1);
    waitpid(producer, NULL, 0);
    waitpid(consumer, NULL, 0);
    return report(mode, rounds, r, recovery_us, passed);
}

int main(int argc, char **argv) {
    uint32_t rounds = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
    if (argc < 3 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: ring_kills producer|consumer|stop rounds [p99_ms_max]\n");
        return 2;
    }
    if (argc > 3) {
        p99_us_max = 1000 * (int64_t)atoi(argv[3]);
    }
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(path, sizeof path, "/dev/shm/tailrace-kills-%d", (int)getpid());
    struct ring r;
    char why[160];
    if (control == MAP_FAILED || ring_create(&r, path, RING_BYTES, RING_BYTES, why, sizeof why) == -1) {
        return 2;
    }
    int result = run(argv[1], rounds, &r);
    ring_unmap(&r);
    unlink(path);
    return result;
}
