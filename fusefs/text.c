/*
 * text.c - see text.h.
 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for @more bytes and a terminator. */
static bool make_room(struct gm_text *text, size_t more)
{
    if (text->failed) {
        return false;
    }
    if (text->room - text->length > more) {
        return true;
    }
    size_t room = text->room > 0 ? text->room : 512;
    while (room - text->length <= more) {
        room *= 2;
    }
    char *data = realloc(text->data, room);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void gm_text_append(struct gm_text *text, const char *bytes, size_t length)
{
    if (make_room(text, length)) {
        memcpy(text->data + text->length, bytes, length);
        text->length += length;
        text->data[text->length] = '\0';
    }
}

void gm_text_add(struct gm_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is right above */
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !make_room(text, (size_t)length)) {
        text->failed = true;
        return;
    }
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start() is right above */
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

void gm_text_clear(struct gm_text *text)
{
    free(text->data);
    *text = (struct gm_text){0};
}
