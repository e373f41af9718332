/*
 * ledger.h - what is held at the driver, told from outside: physical bytes, mappings, address space, and their peaks.
 *
 * STRUCTURE    Three search trees (search.h): handles, mappings by address, plain allocations by address.
 *              A chunk's bytes are held from its creation until its handle is released and its last mapping is gone,
 *              as the driver has it. Invariant: @held is the sum over chunks and plain allocations; @mappings counts
 *              the nodes of the mapping tree.
 *              Calls the ledger cannot explain (release of an unknown handle ...) are counted in @unexplained.
 * CONCURRENCY  one thread.
 */
#ifndef GM_LEDGER_H
#define GM_LEDGER_H

#include <stdint.h>

struct gm_ledger {
    void *handles;
    void *maps;
    void *plain;
    uint64_t held, held_peak; /* bytes */
    uint64_t mappings, mappings_peak;
    uint64_t va, va_peak; /* bytes */
    uint64_t unexplained;
};

void gm_ledger_created(struct gm_ledger *ledger, uint64_t handle, uint64_t bytes);
void gm_ledger_released(struct gm_ledger *ledger, uint64_t handle);
void gm_ledger_mapped(struct gm_ledger *ledger, uint64_t address, uint64_t bytes, uint64_t handle);
void gm_ledger_unmapped(struct gm_ledger *ledger, uint64_t address, uint64_t bytes);
void gm_ledger_allocated(struct gm_ledger *ledger, uint64_t address, uint64_t bytes);
void gm_ledger_freed(struct gm_ledger *ledger, uint64_t address);
void gm_ledger_reserved(struct gm_ledger *ledger, uint64_t bytes);
void gm_ledger_unreserved(struct gm_ledger *ledger, uint64_t bytes);

/* Forgets everything; an all-zero ledger is empty and valid. */
void gm_ledger_finish(struct gm_ledger *ledger);

#endif
