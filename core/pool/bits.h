/*
 * bits.h - sets of pages, a bit a page, in words of 64: what of a range may be usable.
 *
 * A chunk's mask of at most 64 pages is laid over a set at any page. Sets have a word to spare at their end, so that
 * a mask never runs out of them.
 */
#ifndef GM_BITS_H
#define GM_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words of a set of @pages pages. */
static inline size_t gm_bits_words(uint32_t pages)
{
    return pages / 64 + 2;
}

static inline bool gm_bits_has(const uint64_t *set, uint32_t page)
{
    return set[page / 64] >> page % 64 & 1;
}

/* Adds the pages of @mask, of which bit 0 is @page. Returns whether any was missing. */
static inline bool gm_bits_set(uint64_t *set, uint32_t page, uint64_t mask)
{
    uint64_t low = mask << page % 64;
    uint64_t high = page % 64 == 0 ? 0 : mask >> (64 - page % 64);
    uint64_t missing = (low & ~set[page / 64]) | (high & ~set[page / 64 + 1]);
    set[page / 64] |= low;
    set[page / 64 + 1] |= high;
    return missing != 0;
}

static inline void gm_bits_clear(uint64_t *set, uint32_t page, uint64_t mask)
{
    set[page / 64] &= ~(mask << page % 64);
    if (page % 64 != 0) {
        set[page / 64 + 1] &= ~(mask >> (64 - page % 64));
    }
}

/* The first page of [from, past) that is in the set (@invert 0) or is not (@invert UINT64_MAX); @past if none. */
static inline uint32_t gm_bits_next(const uint64_t *set, uint32_t from, uint32_t past, uint64_t invert)
{
    if (from >= past) {
        return past;
    }
    uint32_t word = from / 64;
    uint64_t left = (set[word] ^ invert) & (UINT64_MAX << from % 64);
    while (left == 0) {
        if (++word * 64 >= past) {
            return past;
        }
        left = set[word] ^ invert;
    }
    uint32_t page = word * 64 + (uint32_t)__builtin_ctzll(left);
    return page < past ? page : past;
}

/* The first page of the run of pages in the set that ends before @past; not below @from. */
static inline uint32_t gm_bits_run_start(const uint64_t *set, uint32_t from, uint32_t past)
{
    while (past > from) {
        uint32_t word = (past - 1) / 64;
        uint64_t missing = ~set[word] & (UINT64_MAX >> (63 - (past - 1) % 64));
        if (missing != 0) {
            uint32_t start = word * 64 + 64 - (uint32_t)__builtin_clzll(missing);
            return start > from ? start : from;
        }
        past = word * 64;
    }
    return from;
}

/*
 * The first page of the first @count pages in a row of [from, past) that are all in the set; @past: there are none.
 * *longest is raised to the most pages in a row before that.
 */
static inline uint32_t gm_bits_find(const uint64_t *set, uint32_t from, uint32_t past, uint32_t count,
                                    uint32_t *longest)
{
    uint32_t word = from / 64;
    uint64_t there = set[word] & UINT64_MAX << from % 64;
    uint32_t start;
    for (;;) {
        while (there == 0) {
            if (++word * 64 >= past) {
                return past;
            }
            there = set[word];
        }
        start = word * 64 + (uint32_t)__builtin_ctzll(there);
        uint64_t missing = ~there & -there; /* behind the first that is there */
        uint32_t enough = count < past - start ? start + count : past;
        while (missing == 0 && ++word * 64 < enough) {
            there = set[word];
            missing = ~there;
        }
        uint32_t end = word * 64 + (missing == 0 ? 0 : (uint32_t)__builtin_ctzll(missing));
        if (end >= past || end - start >= count) {
            break;
        }
        *longest = end - start > *longest ? end - start : *longest;
        there &= -missing;
    }
    if (start < past && past - start >= count) {
        return start;
    }
    *longest = start < past && past - start > *longest ? past - start : *longest;
    return past;
}

#endif
