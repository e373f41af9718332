/*
 * blocks.h - what the stress programs know of each live block: where it is, and what its bytes must be.
 *
 * STRUCTURE    A block is filled with its own word, in stream order, through its device address; whole if it is small,
 *              else at its ends and around the borders of its 2 MiB pages. All live blocks of the process are in one
 *              tree by address, so that two that overlap meet there.
 *              A block is poisoned before it is freed, again in stream order: where its memory is handed out before
 *              that work is done, the poison falls on the next owner's bytes.
 * CONCURRENCY  a lock guards the tree. A block belongs to one thread at a time.
 */
#ifndef GM_STRESS_BLOCKS_H
#define GM_STRESS_BLOCKS_H

#include <gmlake/gmlake.h>
#include <stdbool.h>
#include <stdint.h>

struct gm_live {
    gmlake_ptr address;
    uint64_t bytes;
    uint32_t word;
    uint32_t stream; /* number of the stream it was filled on */
    bool driver;     /* made while the tunable enabled was off */
};

/* Enters the block, which overlaps no other, or the program fails; and takes it out. */
void gm_live_enter(const struct gm_live *block);
void gm_live_leave(const struct gm_live *block);

/* Fills the block with @word in the order of @stream. */
void gm_live_fill(const struct gm_live *block, uint32_t word, gmlake_stream stream);

/* Compares the block's bytes with its word. Its fill has completed. */
void gm_live_compare(const struct gm_live *block);

/* gmlake_find() knows the block by its first and last byte, and not by the byte behind it as this block. */
void gm_live_expect_found(struct gmlake *allocator, const struct gm_live *block);

/* gmlake_walk() visits every live block of the tree that is not the driver's, once, and nothing overlaps. */
void gm_live_expect_walked(struct gmlake *allocator);

#endif
