/*
 * id_map.h - 64-bit keys to 32-bit numbers, insert and find only.
 *
 * STRUCTURE    Open addressing with linear probing, a power of two of slots, at most half full.
 *              Invariant: every key in the table is found by probing from its hash without meeting an empty slot;
 *              EMPTY is no key. An all-zero map is empty and valid.
 * CONCURRENCY  one thread.
 */
#ifndef GM_ID_MAP_H
#define GM_ID_MAP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define GM_ID_MAP_EMPTY UINT64_MAX

struct gm_id_map_slot {
    uint64_t key;
    uint32_t value;
};

struct gm_id_map {
    struct gm_id_map_slot *slots;
    size_t room; /* 0 or a power of two */
    size_t used;
};

/* The slot that holds @key, or the empty one where it belongs; the map has room. */
static inline struct gm_id_map_slot *gm_id_map_slot(const struct gm_id_map *map, uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash ^ hash >> 32) & (map->room - 1);
    while (map->slots[i].key != key && map->slots[i].key != GM_ID_MAP_EMPTY) {
        i = (i + 1) & (map->room - 1);
    }
    return &map->slots[i];
}

static inline bool gm_id_map_find(const struct gm_id_map *map, uint64_t key, uint32_t *out)
{
    if (map->room == 0 || key == GM_ID_MAP_EMPTY) {
        return false;
    }
    const struct gm_id_map_slot *slot = gm_id_map_slot(map, key);
    if (slot->key != key) {
        return false;
    }
    *out = slot->value;
    return true;
}

static inline int gm_id_map_grow(struct gm_id_map *map)
{
    struct gm_id_map bigger = {.room = map->room == 0 ? 1024 : map->room * 2, .used = map->used};
    bigger.slots = reallocarray(NULL, bigger.room, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < bigger.room; i++) {
        bigger.slots[i].key = GM_ID_MAP_EMPTY;
    }
    for (size_t i = 0; i < map->room; i++) {
        if (map->slots[i].key != GM_ID_MAP_EMPTY) {
            *gm_id_map_slot(&bigger, map->slots[i].key) = map->slots[i];
        }
    }
    free(map->slots);
    *map = bigger;
    return 0;
}

/* -EEXIST, -ENOMEM, -EINVAL (the key that stands for "empty"). */
static inline int gm_id_map_insert(struct gm_id_map *map, uint64_t key, uint32_t value)
{
    if (key == GM_ID_MAP_EMPTY) {
        return -EINVAL;
    }
    if (map->used * 2 >= map->room) {
        int rc = gm_id_map_grow(map);
        if (rc < 0) {
            return rc;
        }
    }
    struct gm_id_map_slot *slot = gm_id_map_slot(map, key);
    if (slot->key == key) {
        return -EEXIST;
    }
    *slot = (struct gm_id_map_slot){key, value};
    map->used++;
    return 0;
}

static inline void gm_id_map_finish(struct gm_id_map *map)
{
    free(map->slots);
    *map = (struct gm_id_map){0};
}

#endif
