/*
 * The protocol of the ring: reserve, publish, take, finish, reclaim, and what to do with the records of dead peers.
 * Called by producers and consumers through ring.h; touches the shared words and, of the handle, the consumer's window.
 * Every function is lock-free: a process may die between any two shared accesses and the others go on.
 */
#include "ring.h"

static bool is_claimed(const struct ring *r, uint64_t seq, uint64_t control) {
    return ring_lap_in(control) == ring_lap_of(r, seq);
}

static bool is_unclaimed(const struct ring *r, uint64_t seq, uint64_t control) {
    return ring_lap_in(control) == ((ring_lap_of(r, seq) - 1) & RING_LAP_MASK);
}

static void raise_hint(struct ring *r, uint64_t seq) {
    uint64_t hint = ring_load(&r->file->frontier_hint);
    while (hint < seq && !ring_cas(&r->file->frontier_hint, &hint, seq)) {
    }
}

/* The first unclaimed record. The hint may lag (its raiser died), never lead; `left` bounds how far it lags. */
uint64_t ring_frontier(struct ring *r) {
    for (;;) {
        uint64_t seq = ring_load(&r->file->frontier_hint);
        uint64_t left = ring_load(&r->file->left);
        if (seq < left) {
            seq = left;
        }
        uint64_t control = ring_load(&ring_head_of(r, seq)->control);
        while (is_claimed(r, seq, control)) {
            seq++;
            control = ring_load(&ring_head_of(r, seq)->control);
        }
        if (is_unclaimed(r, seq, control)) {
            return seq;
        }
    }
}

struct room {
    uint64_t heads; /* records that may still be reserved */
    uint32_t used;  /* units between the oldest unfinished body and the frontier */
};

/* Must be called after `seq` was seen unclaimed: then nobody has reserved beyond it and the distance is unambiguous,
 * or the caller's compare-and-swap fails. */
static bool measure_room(struct ring *r, uint64_t seq, uint32_t begin, struct room *room) {
    uint64_t left = ring_load(&r->file->left);
    uint64_t before_left = ring_load(&ring_head_of(r, left - 1)->control);
    if (left > seq || !is_claimed(r, left - 1, before_left)) {
        return false;
    }
    room->heads = left + r->head_count - 1 - seq;
    room->used = ring_distance(r, ring_end_in(before_left), begin);
    return true;
}

/* An empty ring begins again at its front, which is still in the processor's cache, in place of a march through the whole
 * arena. Nobody has to agree to that, as with any wrap. */
static bool is_worth_returning(const struct room *room, uint32_t begin, uint32_t units) {
    return room->used == 0 && begin >= RING_WARM_UNITS && units < begin;
}

enum ring_result ring_reserve(struct ring *r, uint32_t units, struct ring_ticket *ticket) {
    for (;;) {
        uint64_t seq = ring_frontier(r);
        struct ring_head *head = ring_head_of(r, seq);
        uint64_t previous = ring_load(&ring_head_of(r, seq - 1)->control);
        uint64_t expected = ring_load(&head->control);
        struct room room;
        uint32_t begin = ring_end_in(previous);
        if (!is_unclaimed(r, seq, expected) || !is_claimed(r, seq - 1, previous) || !measure_room(r, seq, begin, &room)) {
            continue; /* others were quicker */
        }
        uint32_t wrap = ring_load(&r->file->wrap_units);
        bool returns = is_worth_returning(&room, begin, units);
        bool flush = returns || (begin != 0 && begin + units > (wrap < r->arena_units ? wrap : r->arena_units));
        uint32_t needed = room.used + units + (flush ? r->arena_units - begin : 0);
        if (needed >= r->arena_units || room.heads < (flush ? 2u : 1u)) {
            if (ring_load(&head->control) == expected) {
                return RING_FULL;
            }
            continue;
        }
        uint32_t end = flush || begin + units == r->arena_units ? 0 : begin + units;
        uint64_t lap = ring_lap_of(r, seq);
        if (!ring_cas(&head->control, &expected, ring_control(lap, flush ? RING_FLUSH : RING_WRITING, r->peer, end))) {
            continue;
        }
        raise_hint(r, seq + 1);
        if (!flush) {
            *ticket = (struct ring_ticket){.seq = seq, .end = end, .body = r->arena + RING_BODY_OF(begin)};
            return RING_OK;
        }
        if (returns) {
            ring_advance_left(r); /* nothing lies before the flush record: what it jumps over is free again at once */
        }
    }
}

static void make_ready(struct ring *r, const struct ring_ticket *ticket, uint32_t target, uint32_t length, uint32_t kind) {
    struct ring_head *head = ring_head_of(r, ticket->seq);
    head->tag = ticket->seq;
    head->target = target;
    head->length = length;
    head->kind = kind;
    head->writer = r->pid;
    ring_store(&head->control, ring_control(ring_lap_of(r, ticket->seq), RING_READY, r->peer, ticket->end));
}

bool ring_publish(struct ring *r, const struct ring_ticket *ticket, uint32_t target, uint32_t length, uint32_t kind) {
    make_ready(r, ticket, target, length, kind);
    return ring_wake_consumers(r);
}

/* A consumer that takes its word back does so before it looks for the last time, and then finds the record. */
void ring_publish_calmly(struct ring *r, const struct ring_ticket *ticket, uint32_t target, uint32_t length, uint32_t kind) {
    make_ready(r, ticket, target, length, kind);
    if (ring_load(&r->file->patient) == 0) {
        ring_wake_consumers(r);
    }
}

/* The body could not be written after all: the record is passed over like a dead writer's. */
void ring_abandon(struct ring *r, const struct ring_ticket *ticket) {
    uint64_t lap = ring_lap_of(r, ticket->seq);
    ring_store(&ring_head_of(r, ticket->seq)->control, ring_control(lap, RING_SKIPPED, r->peer, ticket->end));
}

/* A hole is a record passed over while it was being written. Those no longer being written leave the list. */
static bool find_in_holes(struct ring *r, uint64_t *seq, uint64_t *control) {
    int kept = 0;
    bool found = false;
    for (int i = 0; i < r->hole_count; i++) {
        uint64_t hole = r->holes[i];
        uint64_t seen = found ? 0 : ring_load(&ring_head_of(r, hole)->control);
        if (!found && is_claimed(r, hole, seen) && ring_status_in(seen) == RING_READY) {
            found = true;
            *seq = hole;
            *control = seen;
        }
        if (found || (is_claimed(r, hole, seen) && ring_status_in(seen) == RING_WRITING)) {
            r->holes[kept++] = hole;
        }
    }
    r->hole_count = kept;
    return found;
}

/* The oldest ready record of the window, or none. A ready record on the right is taken only if no hole has become ready
 * meanwhile: its writer may have filled that hole first, and a writer's records must be seen in order. */
static bool find_ready(struct ring *r, uint64_t *seq, uint64_t *control) {
    if (find_in_holes(r, seq, control)) {
        return true;
    }
    for (;;) {
        uint64_t seen = ring_load(&ring_head_of(r, r->right)->control);
        if (is_unclaimed(r, r->right, seen)) {
            return false;
        }
        if (!is_claimed(r, r->right, seen)) {
            r->right = ring_load(&r->file->left); /* other consumers went a whole lap ahead */
            continue;
        }
        enum ring_status status = ring_status_in(seen);
        if (status == RING_READY) {
            if (r->hole_count == 0 || !find_in_holes(r, seq, control)) {
                *seq = r->right;
                *control = seen;
            }
            return true;
        }
        if (status == RING_WRITING) {
            if (r->hole_count == RING_HOLES_MAX) {
                return false;
            }
            r->holes[r->hole_count++] = r->right;
        }
        r->right++;
    }
}

bool ring_has_ready(struct ring *r) {
    uint64_t seq, control;
    return find_ready(r, &seq, &control);
}

static bool view_is_sound(const struct ring *r, const struct ring_view *view, uint32_t end, uint64_t tag) {
    uint32_t units = ring_units_for(view->length);
    uint32_t limit = end == 0 ? r->arena_units : end;
    return tag == view->seq && limit <= r->arena_units && units <= limit;
}

enum ring_result ring_take(struct ring *r, struct ring_view *view) {
    uint64_t seq, control;
    while (find_ready(r, &seq, &control)) {
        struct ring_head *head = ring_head_of(r, seq);
        uint32_t end = ring_end_in(control);
        uint64_t claim = ring_control(ring_lap_of(r, seq), RING_CLAIMED, r->peer, end);
        if (!ring_cas(&head->control, &control, claim)) {
            continue;
        }
        *view = (struct ring_view){.seq = seq, .target = head->target, .length = head->length, .kind = head->kind,
                                   .writer = head->writer};
        if (!view_is_sound(r, view, end, head->tag)) {
            return RING_CORRUPT;
        }
        uint32_t limit = end == 0 ? r->arena_units : end;
        view->body = r->arena + RING_BODY_OF(limit - ring_units_for(view->length));
        return RING_OK;
    }
    return RING_NOTHING;
}

static bool leave_claim(struct ring *r, uint64_t seq, enum ring_status status) {
    struct ring_head *head = ring_head_of(r, seq);
    uint64_t control = ring_load(&head->control);
    if (!is_claimed(r, seq, control) || ring_status_in(control) != RING_CLAIMED || ring_peer_in(control) != r->peer) {
        return false;
    }
    uint64_t next = ring_control(ring_lap_of(r, seq), status, r->peer, ring_end_in(control));
    return ring_cas(&head->control, &control, next);
}

bool ring_done(struct ring *r, uint64_t seq) { return leave_claim(r, seq, RING_HAS_READ); }

bool ring_give_back(struct ring *r, uint64_t seq) {
    bool given = leave_claim(r, seq, RING_READY);
    if (given) {
        ring_wake_consumers(r);
    }
    return given;
}

/* Frees the finished records at the left side of the window. */
void ring_advance_left(struct ring *r) {
    for (;;) {
        uint64_t left = ring_load(&r->file->left);
        uint64_t seq = left;
        for (;;) {
            uint64_t control = ring_load(&ring_head_of(r, seq)->control);
            if (!is_claimed(r, seq, control) || !ring_status_is_final(ring_status_in(control))) {
                break;
            }
            seq++;
        }
        if (seq == left) {
            return;
        }
        if (ring_cas(&r->file->left, &left, seq)) {
            ring_wake_producers(r, false);
        }
    }
}

/* Skips what the dead were writing and releases what they had claimed; `dead` has their identities, 0 for everyone else. One
 * pass suffices for a peer that was dead before it began: it can neither reserve nor claim any more, so afterwards no
 * record names it and its place may be given away. Another process may do just that while this one sleeps in between;
 * therefore the place must still be the dead one's after the record was read. */
void ring_resolve_dead(struct ring *r, const uint64_t dead[RING_PEERS]) {
    uint64_t seq = ring_load(&r->file->left);
    for (;; seq++) {
        struct ring_head *head = ring_head_of(r, seq);
        uint64_t control = ring_load(&head->control);
        if (is_unclaimed(r, seq, control)) {
            return;
        }
        if (!is_claimed(r, seq, control)) {
            seq = ring_load(&r->file->left) - 1; /* finished and reused while this pass was on its way */
            continue;
        }
        enum ring_status status = ring_status_in(control);
        uint32_t peer = ring_peer_in(control);
        bool open = status == RING_WRITING || status == RING_CLAIMED;
        if (!open || peer >= RING_PEERS || dead[peer] == 0 || ring_load(&r->file->peers[peer]) != dead[peer]) {
            continue;
        }
        bool writing = status == RING_WRITING;
        uint64_t next = ring_control(ring_lap_of(r, seq), writing ? RING_SKIPPED : RING_READY, peer, ring_end_in(control));
        if (ring_cas(&head->control, &control, next)) {
            ring_add(writing ? &r->file->skipped_count : &r->file->released_count, 1);
        }
    }
}

/* Units in use, without the stretch between the wrap line and the arena's end that a wrapped window jumps over. */
uint32_t ring_used_units(struct ring *r) {
    for (;;) {
        uint64_t seq = ring_frontier(r);
        uint64_t previous = ring_load(&ring_head_of(r, seq - 1)->control);
        uint64_t expected = ring_load(&ring_head_of(r, seq)->control);
        uint32_t begin = ring_end_in(previous);
        struct room room;
        if (is_unclaimed(r, seq, expected) && is_claimed(r, seq - 1, previous) && measure_room(r, seq, begin, &room)) {
            uint32_t jumped = r->arena_units - ring_load(&r->file->wrap_units);
            return room.used > begin && room.used - begin > jumped ? room.used - jumped : room.used;
        }
    }
}
