/* Doubly linked rings of nodes that live in their owners; an empty ring is linked to itself. */
#ifndef WALDO_BASE_RING_H
#define WALDO_BASE_RING_H

typedef struct waldo__ring {
    struct waldo__ring *next;
    struct waldo__ring *prev;
} waldo__ring;

static inline void waldo__ring_init(waldo__ring *ring)
{
    ring->next = ring->prev = ring;
}

/* Of a node: 1 when it is in no ring. */
static inline int waldo__ring_empty(const waldo__ring *ring)
{
    return ring->next == ring;
}

/* At the end. */
static inline void waldo__ring_add(waldo__ring *ring, waldo__ring *node)
{
    node->prev = ring->prev;
    node->next = ring;
    ring->prev->next = node;
    ring->prev = node;
}

/* Leaves the node an empty ring; twice is harmless. */
static inline void waldo__ring_remove(waldo__ring *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    waldo__ring_init(node);
}

#endif
