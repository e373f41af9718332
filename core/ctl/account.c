/*
 * account.c - see account.h.
 */
#include "account.h"

#include "tunables.h"

static _Atomic uint64_t held;
static _Atomic uint64_t peak;
static _Atomic uint64_t segment_peak; /* never less than held: both are raised before a charge is seen as done */

static void raise_to(_Atomic uint64_t *mark, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(mark, memory_order_relaxed);
    while (seen < value &&
           !atomic_compare_exchange_weak_explicit(mark, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* A limit that is in force now; none of this is on the hot path. */
static uint64_t limit_now(enum gmlake_tunable which)
{
    gm_tunables_look();
    return gm_tunable(which);
}

enum gm_charge gm_account_charge(uint64_t bytes)
{
    uint64_t max = limit_now(GMLAKE_TUNABLE_memory_max);
    uint64_t high = limit_now(GMLAKE_TUNABLE_memory_high);
    uint64_t before = atomic_load_explicit(&held, memory_order_relaxed);
    uint64_t after;
    do {
        if (__builtin_add_overflow(before, bytes, &after) || after > max) {
            return GM_CHARGE_REFUSED;
        }
    } while (!atomic_compare_exchange_weak(&held, &before, after));
    raise_to(&peak, after);
    raise_to(&segment_peak, after);
    return before <= high && after > high ? GM_CHARGE_BEYOND_HIGH : GM_CHARGE_DONE;
}

void gm_account_uncharge(uint64_t bytes)
{
    atomic_fetch_sub(&held, bytes);
}

static uint64_t left_to(uint64_t limit)
{
    uint64_t current = gm_account_current();
    return limit == GMLAKE_UNLIMITED ? UINT64_MAX : limit > current ? limit - current : 0;
}

uint64_t gm_account_left(void)
{
    return left_to(limit_now(GMLAKE_TUNABLE_memory_max));
}

uint64_t gm_account_left_to_high(void)
{
    return left_to(limit_now(GMLAKE_TUNABLE_memory_high));
}

bool gm_account_refuses(uint64_t bytes)
{
    return gm_account_left() < bytes;
}

uint64_t gm_account_excess(void)
{
    uint64_t max = limit_now(GMLAKE_TUNABLE_memory_max);
    uint64_t high = limit_now(GMLAKE_TUNABLE_memory_high);
    uint64_t limit = max < high ? max : high;
    uint64_t current = gm_account_current();
    return current > limit ? current - limit : 0;
}

uint64_t gm_account_current(void)
{
    return atomic_load_explicit(&held, memory_order_relaxed);
}

uint64_t gm_account_peak(void)
{
    return atomic_load_explicit(&peak, memory_order_relaxed);
}

uint64_t gm_account_segment_peak(void)
{
    return atomic_load_explicit(&segment_peak, memory_order_relaxed);
}

uint64_t gm_account_cut_segment(void)
{
    uint64_t ended = atomic_exchange(&segment_peak, gm_account_current());
    raise_to(&segment_peak, gm_account_current()); /* a charge between the two is part of both segments */
    return ended;
}

void gm_account_forget(void)
{
    atomic_store(&held, 0);
    atomic_store(&peak, 0);
    atomic_store(&segment_peak, 0);
}
