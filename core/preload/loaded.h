/*
 * loaded.h - what the loader knows about the objects of this process, read from their own tables.
 *
 * The library replaces dlsym(), so it cannot ask dlsym() where the real one is; and a look-up made this way takes no
 * lock, allocates nothing and leaves dlerror() alone, so it is safe inside malloc(), constructors and other look-ups.
 *
 * CONCURRENCY  reads tables that do not change while their object is loaded. The caller sees to it that it stays so:
 *              an object is asked about by code of its own, by its holder, or belongs to the start of the process.
 */
#ifndef GM_LOADED_H
#define GM_LOADED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* The loaded object that holds @address; NULL: none. */
const struct link_map *gm_loaded_owner(const void *address);

/* The address of the function that @object defines and exports as @name; 0: none. */
uintptr_t gm_loaded_function(const struct link_map *object, const char *name);

/* The first function @name in the objects after ours in the loader's order, else in any before it; 0: none. */
uintptr_t gm_loaded_next_function(const char *name);

/* Whether @object calls itself @name (DT_SONAME), wherever it was loaded from. */
bool gm_loaded_is_named(const struct link_map *object, const char *name);

/* strcmp() == 0, without leaving this library: strcmp() may be another library's that is not ready yet. */
bool gm_loaded_same_text(const char *a, const char *b);

#endif
