/*
 * account.h - the device memory that this process holds, all its devices together, against memory_max and memory_high.
 *
 * What counts are chunks of the pools and memory that the driver served in their place; as with cgroups, the limits are
 * the process's, not a device's.
 *
 * STRUCTURE    Memory is charged before it is taken and given up after it is released: the sum is never less than what
 *              is held. Beyond memory_max nothing is charged; memory_high only tells that it was crossed.
 * CONCURRENCY  atomics, from any thread; every charge is a driver call away from the hot path.
 */
#ifndef GM_ACCOUNT_H
#define GM_ACCOUNT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What became of a charge. */
enum gm_charge {
    GM_CHARGE_DONE,
    GM_CHARGE_BEYOND_HIGH, /* done, and with it memory_high is crossed */
    GM_CHARGE_REFUSED,     /* it would go beyond memory_max */
};

enum gm_charge gm_account_charge(uint64_t bytes);

/* Gives up what was charged. */
void gm_account_uncharge(uint64_t bytes);

/* Whether @bytes more would go beyond memory_max. */
bool gm_account_refuses(uint64_t bytes);

/* Bytes until memory_max, and until memory_high; UINT64_MAX: there is no such limit. */
uint64_t gm_account_left(void);
uint64_t gm_account_left_to_high(void);

/* Bytes beyond the lower of the two limits; 0: within them. */
uint64_t gm_account_excess(void);

/* Bytes held now, and the most there were since the process started. */
uint64_t gm_account_current(void);
uint64_t gm_account_peak(void);

/* The most there were since the last gm_account_cut_segment(). */
uint64_t gm_account_segment_peak(void);

/* Begins a new segment; gives the peak of the one that ends. */
uint64_t gm_account_cut_segment(void);

/* In a child made by fork(), which holds nothing. */
void gm_account_forget(void);

#endif
