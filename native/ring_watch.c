/*
 * Watching sockets for a consumer that sleeps on a ring: each event of an epoll set wakes the ring. Called with the
 * GIL released from a thread of the worker; touches the epoll set only to add and remove the stop signal.
 */
#include "ring.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_MAX 16

static bool stopped(int stop) {
    uint64_t count;
    return read(stop, &count, sizeof count) == (ssize_t)sizeof count;
}

/* 0: stopped; -1: errno. The sockets must be edge-triggered: nothing here reads them, so a level would ring for ever. */
int ring_watch(struct ring *r, int epoll_fd, int stop) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = stop};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, stop, &event) == -1) {
        return -1;
    }
    int error = 0;
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        if (count == -1) {
            error = errno;
            break;
        }
        if (stopped(stop)) {
            break;
        }
        ring_wakeup(r);
    }
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, stop, NULL);
    errno = error;
    return error == 0 ? 0 : -1;
}
