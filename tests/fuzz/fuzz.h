/*
 * fuzz.h - the entry point every fuzz target defines, and what it does when it finds something.
 */
#ifndef GM_FUZZ_H
#define GM_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops the program where a property does not hold: the input that did it is kept by the fuzzer. */
#define FUZZ_EXPECT(property)                                                                                          \
    do {                                                                                                               \
        if (!(property)) {                                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #property);                              \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
