/*
 * loaded.c - reads the dynamic symbol tables of loaded objects.
 */
#include "loaded.h"

#include <dlfcn.h>
#include <elf.h>
#include <stddef.h>

/* The parts of an object's dynamic section that a look-up needs; NULL where it has none. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash; /* DT_GNU_HASH: bucket count, first symbol, bloom words, bloom shift, then the tables */
    ElfW(Word) soname;    /* offset in strings; 0: none */
};

bool gm_loaded_same_text(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return *a == *b;
}

/* The loader adds the load address to these pointers in most objects, but not where the section is read-only. */
static uintptr_t pointer_in(const struct link_map *object, ElfW(Addr) value)
{
    return value < object->l_addr ? value + object->l_addr : value;
}

static struct tables tables_of(const struct link_map *object)
{
    struct tables tables = {NULL, NULL, NULL, 0};
    if (object->l_ld == NULL) {
        return tables;
    }
    for (const ElfW(Dyn) *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB) {
            tables.symbols = (const ElfW(Sym) *)pointer_in(object, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_STRTAB) {
            tables.strings = (const char *)pointer_in(object, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_GNU_HASH) {
            tables.hash = (const uint32_t *)pointer_in(object, entry->d_un.d_ptr);
        } else if (entry->d_tag == DT_SONAME) {
            tables.soname = (ElfW(Word))entry->d_un.d_val;
        }
    }
    return tables;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

static bool defines_function(const ElfW(Sym) * symbol)
{
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC;
}

uintptr_t gm_loaded_function(const struct link_map *object, const char *name)
{
    struct tables tables = tables_of(object);
    if (tables.symbols == NULL || tables.strings == NULL || tables.hash == NULL || tables.hash[0] == 0) {
        return 0;
    }
    uint32_t bucket_count = tables.hash[0];
    uint32_t first_symbol = tables.hash[1];
    uint32_t bloom_words = tables.hash[2] * (uint32_t)(sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *buckets = tables.hash + 4 + bloom_words;
    const uint32_t *chains = buckets + bucket_count;
    uint32_t wanted = gnu_hash(name);
    uint32_t index = buckets[wanted % bucket_count];
    if (index < first_symbol) {
        return 0;
    }
    for (;; index++) {
        uint32_t hash = chains[index - first_symbol];
        const ElfW(Sym) *symbol = &tables.symbols[index];
        if ((hash | 1) == (wanted | 1) && gm_loaded_same_text(tables.strings + symbol->st_name, name) &&
            defines_function(symbol)) {
            return object->l_addr + symbol->st_value;
        }
        if ((hash & 1) != 0) { /* the end of the bucket */
            return 0;
        }
    }
}

const struct link_map *gm_loaded_owner(const void *address)
{
    Dl_info info;
    void *object = NULL;
    if (dladdr1(address, &info, &object, RTLD_DL_LINKMAP) == 0) {
        return NULL;
    }
    return object;
}

uintptr_t gm_loaded_next_function(const char *name)
{
    static const char inside = 0;
    const struct link_map *own = gm_loaded_owner(&inside);
    if (own == NULL) {
        return 0;
    }
    for (const struct link_map *object = own->l_next; object != NULL; object = object->l_next) {
        uintptr_t function = gm_loaded_function(object, name);
        if (function != 0) {
            return function;
        }
    }
    /* Loaded late, by dlopen(): everything else came before. */
    for (const struct link_map *object = own->l_prev; object != NULL; object = object->l_prev) {
        uintptr_t function = gm_loaded_function(object, name);
        if (function != 0) {
            return function;
        }
    }
    return 0;
}

bool gm_loaded_is_named(const struct link_map *object, const char *name)
{
    struct tables tables = tables_of(object);
    return tables.strings != NULL && tables.soname != 0 && gm_loaded_same_text(tables.strings + tables.soname, name);
}
