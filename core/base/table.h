/*
 * table.h - memory for the allocator's own tables, there before it is touched.
 *
 * The first touch of a page takes the kernel as long as ten to a hundred calls of the allocator take, and so does
 * every mapping and moving of one: a young pool, whose tables all grow, would spend more time on that than on its work.
 *
 * STRUCTURE    Pieces of 2 MiB, a huge page each where the kernel has one, else with all their pages made at once. They
 *              are halved as often as needed; what is given back is kept for the next table of its size. The pieces go
 *              when the last table does. Larger tables have mappings of their own. Nothing of the host's malloc is
 *              used. Invariant: a table that is not in use holds zeroes, but for the link in its list.
 * CONCURRENCY  any thread: there is a lock, the last one in the order.
 */
#ifndef GM_TABLE_H
#define GM_TABLE_H

#include <stddef.h>

/* Room for @bytes, zeroed, a cache line or more from the next table. NULL: there is none. */
void *gm_table_take(size_t bytes);

/* Takes back what gm_table_take() gave for @bytes. NULL is fine. */
void gm_table_give(void *table, size_t bytes);

/* In a child made by fork(), where tables of the parent are not given back: begins anew. */
void gm_table_forget(void);

#endif
