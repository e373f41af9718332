/*
 * verify.h - a door around another that proves blocks do not share memory: --verify.
 *
 * WHAT IT DOES Each block is filled, on its stream, with a word that differs for every block and for every 2 MiB page
 *              in it, so that two blocks on the same bytes, and one block with a page mapped twice, both show. Before
 *              it is freed, its contents are copied to the host, again in stream order, and compared; then it is
 *              filled once more, so that a block handed out before the work that used it has completed gets dirt.
 *              Addresses of live blocks are checked for overlap and alignment as well.
 * STRUCTURE    Copies land in a host buffer and are compared when it is full, so that the replay does not
 *              synchronise at each free and memory stays in use by pending work, as in a real program.
 * CONCURRENCY  one thread.
 */
#ifndef GM_VERIFY_H
#define GM_VERIFY_H

#include "door.h"

/*
 * Puts a verifying door around @inner for @trace. Complaints go to standard error, the first few in full.
 * -ENOMEM: no host memory.
 */
int gm_verify_open(const struct gm_trace *trace, const struct gm_driver *driver, struct gm_door *inner,
                   struct gm_door **out);

/* Compares what is still outstanding and gives the number of errors found since it was opened. */
uint64_t gm_verify_errors(struct gm_door *door);

void gm_verify_close(struct gm_door *door);

#endif
