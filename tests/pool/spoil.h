/*
 * spoil.h - breaks one invariant of an allocator at a time, for test_check.c. Apart from the test because headers of the
 * core and of the simulated driver have names in common.
 */
#ifndef GM_TEST_SPOIL_H
#define GM_TEST_SPOIL_H

#include <gmlake/gmlake.h>
#include <stdbool.h>

/* What can be spoilt, by number from 0: what gmlake_check() then says, among other words; NULL after the last. */
const char *spoil_says(unsigned number);

/* Spoils it. False: there is nothing of the kind in this allocator. */
bool spoil(struct gmlake *allocator, unsigned number);

#endif
