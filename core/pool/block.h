/*
 * block.h - the structs of the allocator, and its words.
 *
 *   page     2 MiB, what the driver maps memory in. A page is in use through at most one mapping at a time.
 *   unit     512 bytes, what requests are rounded to. Neighbouring blocks share the page at their border.
 *   chunk    one physical handle of the driver, 1 to 64 pages.
 *   range    reserved addresses of one class of request sizes. Chunks are mapped one after the other from its start;
 *            blocks are cut from what is mapped. A chunk is mapped at most once in a range.
 *   slot     one mapping: a chunk at its place in a range. The slot a chunk was created for is its home, every other
 *            slot is an alias.
 *   block    what a request gets: units of a range. A primitive block (pblock) lies in home slots only, a stitched
 *            block (sblock) has at least one page in an alias: scattered chunks, side by side.
 *   gap      the addresses between two live blocks: free, though pages of it may be in use through other slots.
 *   pools    the free pages seen through home slots are the primitive pool, those seen through aliases the stitched
 *            pool: memory is shared, so using a page in one takes it from the other.
 *   stitch   map free chunks (and free pages of partly used ones) side by side at the end of a range.
 *   cut      make two chunks of a free one, so that the rest stays free when a block takes the first part.
 *
 *            range 1 (4 MiB blocks)            range 2 (64 MiB blocks)
 *            |A|B|. . .|C|. . . . . .|         |D D D D|. . .|a a a|
 *             chunk 1    chunk 2     end        chunk 3       alias of chunk 1: usable where A, B, C are not
 *
 * CONCURRENCY  Everything here is guarded by the pool's lock. Indices, not pointers, because arrays move.
 */
#ifndef GM_BLOCK_H
#define GM_BLOCK_H

#include "array.h"
#include "lock.h"
#include "vmm.h"

#include <gmlake/gmlake.h>
#include <stdbool.h>
#include <stdint.h>

#define GM_UNIT_SHIFT  9u
#define GM_UNIT_SIZE   ((uint64_t)1 << GM_UNIT_SHIFT)
#define GM_PAGE_UNITS  (1u << (GM_PAGE_SHIFT - GM_UNIT_SHIFT))
#define GM_CHUNK_PAGES 64u /* one bit a page in a 64-bit mask */
#define GM_NONE        UINT32_MAX

/* The largest block: sizes and bounds in units fit in 31 bits, with room beside the block in the largest range. */
#define GM_BLOCK_MAX ((uint64_t)1 << 38)

/* A stamp says when memory was last used: the stream in the top byte, the pool's operation count below. */
#define GM_STAMP_SHIFT   56u
#define GM_SEQUENCE_MASK (((uint64_t)1 << GM_STAMP_SHIFT) - 1)
#define GM_STREAMS_MAX   250u /* streams told apart at a time */
#define GM_STREAM_ANY    254u /* in a stamp: any stream of the context, known to us or not */
#define GM_STREAM_MIXED  255u /* in a stamp: several streams, all up to this sequence */

/* Where a chunk is mapped. */
struct gm_place {
    uint32_t page; /* first page in the range */
    uint16_t range;
};

#define GM_PLACES_INLINE 4u
#define GM_PLACES_APART  15u /* those with a bit of their own in gm_chunk.blocked */

/*
 * Invariant: bit p of busy is set exactly when page p lies under a live block, and then all live blocks on that page
 * are in one range. places[] are all its slots, at most one a range; the first is its home.
 */
struct gm_chunk {
    uint64_t busy;
    uint64_t stamp; /* of the last free in it */
    uint16_t pages; /* 0: this entry is unused */
    uint16_t place_count;
    uint16_t place_capacity;
    uint16_t blocked; /* bit i: a page may be marked as not usable in place i; the last bit: in one from there on */
    CUmemGenericAllocationHandle handle;
    union {
        struct gm_place inline_places[GM_PLACES_INLINE];
        struct gm_place *places; /* where place_capacity > GM_PLACES_INLINE */
        uint32_t next_unused;    /* where pages == 0; GM_NONE: the last one */
    };
};
_Static_assert(sizeof(struct gm_chunk) == 64, "a chunk is one cache line: calls touch one for each chunk of a block");

/* Invariant: chunk is GM_NONE (dead addresses) or a chunk of whose places this is the one of number place. */
struct gm_slot {
    uint32_t chunk;
    uint32_t page;  /* first page in the range */
    uint32_t pages; /* length; the chunk's unless dead */
    uint8_t alias;  /* pages, where it is not the chunk's home; else 0 */
    uint8_t dirty;  /* in the range's dirty list */
    uint16_t place;
    uint64_t last_used; /* sequence of the last free through this slot */
};

enum gm_node_state { GM_NODE_UNUSED, GM_NODE_GAP, GM_NODE_LIVE, GM_NODE_SLAB, GM_NODE_PENDING, GM_NODE_KEPT };

/*
 * A piece of a range. Invariant: the nodes of a range, linked in address order, cover its mapped addresses without
 * overlap, and no two neighbours are gaps. Live, slab, pending and kept nodes keep their pages busy. At most one node
 * is kept, the pool's newest.
 */
struct gm_node {
    uint32_t start; /* units from the range's start */
    uint32_t size;  /* units */
    uint32_t prev, next;
    union {
        uint32_t bound; /* gap: no usable run in it is longer than this, units */
        uint32_t slack; /* live, pending, kept: bytes of it that were not asked for */
        uint32_t slab;  /* slab: index of the slab */
    };
    uint32_t link_prev, link_next; /* gap: list of its granule (0: none); pending: list of the pool */
    uint16_t range;
    uint8_t state;
    uint8_t stitched; /* live: at least one page through an alias */
};

enum gm_class {
    GM_CLASS_SMALL,          /* under 1 MiB */
    GM_CLASS_MEDIUM,         /* under 24 MiB */
    GM_CLASS_MEDIUM_ALIGNED, /* multiples of a page: no border page is shared or lost */
    GM_CLASS_LARGE,
    GM_CLASS_LARGE_ALIGNED,
    GM_CLASS_COUNT
};

#define GM_GRANULE_FANOUT 32u
#define GM_START_SLAB     (UINT32_C(1) << 31)

/*
 * Invariant: mapped <= pages. slot_of_page[p] is the slot over page p for p < mapped. starts[i] is the live node that
 * starts in the i-th start granule (at most one does, blocks being no smaller), or 0 where none was put; a slab's entry
 * is GM_START_SLAB and the slab's index instead, and stands in all its granules that no other node starts in.
 * A gap is listed under the granule its end lies in, by granule_head (0: none); granule_bound and group_bound are no
 * lower than the largest bound of the gaps listed below them. Bit p of usable is set if page p is in use here or free;
 * it may be set for a page in use elsewhere, until a search comes across it; where it is clear for a chunk's page, the
 * chunk's place is blocked. What the last search found: no gap that starts before fit_start has a bound of fit_units or
 * more; fit_gap is GM_NONE or the gap that starts there.
 */
struct gm_range {
    CUdeviceptr base;
    uint64_t size;   /* bytes reserved; 0: this entry is unused */
    uint32_t pages;  /* reserved */
    uint32_t mapped; /* pages from the start that slots cover */
    enum gm_class class;
    uint32_t start_shift;   /* units to start granules */
    uint32_t granule_shift; /* units to gap granules */
    uint32_t granules;
    uint32_t bound; /* no gap in the range has a larger one */
    uint32_t fit_units, fit_start, fit_gap;
    bool shared;   /* a chunk here has, or had, another slot */
    uint32_t last; /* last node; GM_NONE: nothing mapped */
    uint32_t *starts;
    uint32_t *slot_of_page;
    uint64_t *usable; /* a bit a page */
    uint32_t *granule_head;
    int32_t *granule_bound;
    int32_t *group_bound;
    struct gm_array slots; /* struct gm_slot, in address order */
    struct gm_array dirty; /* uint32_t pages: slots that gained usable pages since bounds were set */
    struct gm_array held;  /* uint64_t: bit i is set when chunk i is mapped here */
};

/*
 * A stream that has freed or allocated. Events are recorded in order; event i covers every free on the stream up to
 * sequence recorded[i]. Invariant: done <= every recorded[] not yet completed.
 */
#define GM_STREAM_EVENTS 32u

struct gm_stream {
    CUstream handle;
    uint64_t last_free;               /* sequence */
    uint64_t done;                    /* work of frees up to this sequence has completed */
    uint64_t last_record;             /* sequence covered by the newest event */
    uint64_t freed_before;            /* the pool's freed_bytes at that event */
    uint64_t polled;                  /* sequence at the last look at the events */
    uint32_t head, count;             /* ring of events in flight */
    CUevent events[GM_STREAM_EVENTS]; /* created when first needed, then reused */
    uint64_t recorded[GM_STREAM_EVENTS];
    uint64_t waited[GM_STREAMS_MAX]; /* this stream waits for frees of stream i up to this sequence */
};

/*
 * Up to 64 objects of one size in one node of the small class, for requests up to GM_SLAB_MAX and, where GM_CROWD
 * blocks are live, up to GM_SLAB_MAX_CROWDED: the few larger ones of most programs would leave slabs half empty, while
 * a search among a million gaps costs microseconds. Owned by one stream: its objects are reusable there at once.
 * Invariant: a slab with a free object is in the list of its size and stream, others are not. Where noted is set, each
 * object that is not free has a note: the bytes of it that were not asked for, and whether it awaits the end of work on
 * another stream, on which it was freed; else all of them are 0. With a million objects live, a call costs as many
 * cache misses as it touches lines, and the fewer there are of these the more of them are cached: what all calls need
 * is together, notes are apart.
 */
#define GM_SLAB_OBJECTS     64u /* at most */
#define GM_SLAB_CLASSES     40u
#define GM_SLAB_MAX         (16u << 10)
#define GM_SLAB_MAX_CROWDED (64u << 10)
#define GM_CROWD            8192u

struct gm_slab {
    uint64_t free;
    CUdeviceptr base;
    uint32_t node; /* GM_NONE: this entry is unused */
    uint32_t prev, next;
    uint8_t size_class;
    uint8_t stream;
    bool noted;
};
_Static_assert(sizeof(struct gm_slab) == 32, "two slabs share a cache line");

#define GM_NOTE_AWAITING ((uint16_t)0x8000)
#define GM_NOTE_SLACK    ((uint16_t)0x7fff)

struct gm_slab_notes {
    uint16_t of[GM_SLAB_OBJECTS];
};

/* An object freed on another stream than its slab's. */
struct gm_slab_pending {
    uint64_t stamp;
    uint32_t slab;
    uint32_t object;
};

struct gm_pool_counts {
    uint64_t requested, requested_peak, allocated, stitched_blocks, stitched_bytes;
    uint64_t allocs, frees, exact, split, stitch, grow, cut, stream_waits, host_waits, evict, trim, oom, reclaimed;
    uint64_t low_events, stitch_fails, reclaim_events;
};

/*
 * One device. Invariant (gm_pool_check): those of all structs above, and the totals below equal what a walk over
 * them sums up to.
 */
struct gm_pool {
    struct gm_lock lock; /* rank GM_RANK_POOL; guards everything in the pool */
    struct gm_vmm vmm;
    CUcontext context; /* of the thread that made the pool: events live in it. NULL: it has ended */

    uint64_t sequence;  /* operations so far: the clock of stamps */
    uint64_t all_done;  /* the context was synchronised after this sequence: all work up to it is done */
    uint32_t node_free; /* list of unused nodes, by next */
    uint32_t chunk_free;
    uint32_t chunk_count; /* chunks there are */
    uint32_t slab_free;
    struct gm_array nodes, chunks, ranges, slabs;
    struct gm_array slab_notes;                   /* struct gm_slab_notes: those of slab i */
    struct gm_array class_ranges[GM_CLASS_COUNT]; /* uint32_t range indices, in order of creation */
    struct gm_stream *streams;
    uint32_t stream_count;
    uint32_t last_stream;  /* the one used last: most calls come in rows on one stream */
    CUstream plain_stream; /* its handle; while a trace is on, no stream's: then no call is a plain one */
    uint32_t slab_lists[GM_SLAB_CLASSES][GM_STREAMS_MAX];
    struct gm_array slab_pending; /* struct gm_slab_pending, oldest first */
    uint32_t newest;              /* node carved last, nothing having been given back since; 0: none */
    uint64_t kept_stamp;          /* of its free, while it is kept */
    uint32_t sync_pending;        /* list of nodes freed by gmlake_free_sync(), newest first */
    uint64_t sync_freed;          /* nodes that ever entered that list */
    uint64_t sync_pending_bytes;  /* of those nodes, and of objects of slabs that wait for the same */

    struct gm_array free_pages; /* uint8_t: the pages of chunk i, 0 unless it exists and nothing of it is busy */
    uint64_t free_chunk_pages;  /* what they sum up to */
    uint64_t busy_pages;
    uint64_t alias_pages;      /* pages mapped by alias slots */
    uint64_t alias_busy_pages; /* pages in use through alias slots */
    uint64_t freed_bytes;      /* ever; tells the loading phase */
    uint64_t underway_bytes;   /* of counts.requested: asked for by calls that have not come back yet */
    uint64_t served_bytes;     /* ever asked for; the clock of the cut gate */
    uint32_t walk_left;        /* slots this call may still look at */
    uint32_t walk_before;      /* units: no usable run of the gap before the place this call found is longer */
    uint64_t relieved;         /* sequence of the last look at the limits on what is kept */
    uint64_t full_until;       /* served_bytes up to which the device counts as full, for it refused memory lately */

    uint64_t short_until; /* served_bytes up to which memory counts as short: the pool outgrew its bound lately */
    uint64_t short_turn;  /* meanwhile: live bytes where they last turned, or the most or least since then */
    uint32_t short_falls; /* times they fell since the pool outgrew its bound */
    bool short_rising;
    uint64_t asked_until;   /* served_bytes up to which events are recorded, for a cut had to know what is done */
    uint32_t asked_in_vain; /* questions in a row whether a chunk is done that had no for an answer */
    int64_t cut_tokens_ns;  /* time that cuts may still take */
    uint64_t cut_tokens_at_ns;
    uint64_t begun_ns; /* when the pool was made */
    uint64_t cut_peak; /* reserved_peak that tokens were given for */

    struct gm_array candidates, picking, picked, parts; /* the planner's scratch space, kept between calls */

    struct gm_pool_counts counts;
};

#endif
