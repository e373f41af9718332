/*
 * text.h - text that grows while it is rendered.
 *
 * Invariant: data has room bytes, the first length of them are the text and data[length] is 0 once anything was
 * added. failed stays set once memory ran out; what is added after that is dropped, and the text must not be shown.
 */
#ifndef GM_TEXT_H
#define GM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct gm_text {
    char *data;
    size_t length;
    size_t room;
    bool failed;
};

/* Appends as printf() would. */
void gm_text_add(struct gm_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends @length bytes as they are. */
void gm_text_append(struct gm_text *text, const char *bytes, size_t length);

/* Frees the text and makes it empty. */
void gm_text_clear(struct gm_text *text);

#endif
