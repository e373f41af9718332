/*
 * quota.c - see quota.h.
 */
#include "quota.h"

#include <stdlib.h>

static void fill(struct gm_user *user, int64_t now_ms)
{
    int64_t passed = now_ms - user->filled_ms;
    int64_t more = passed * (int64_t)GM_WORDS_PER_SECOND / 1000;
    if (passed > 60000 || more >= (int64_t)(GM_WORDS_AT_ONCE - user->words)) {
        user->words = GM_WORDS_AT_ONCE;
        user->filled_ms = now_ms;
    } else if (more > 0) {
        user->words += (unsigned)more;
        user->filled_ms = now_ms;
    }
}

static struct gm_user *find(struct gm_users *users, uid_t uid, int64_t now_ms)
{
    for (struct gm_user *user = users->first; user != NULL; user = user->next) {
        if (user->uid == uid) {
            fill(user, now_ms);
            return user;
        }
    }
    struct gm_user *user = calloc(1, sizeof *user);
    if (user != NULL) {
        *user = (struct gm_user){.next = users->first, .uid = uid, .words = GM_WORDS_AT_ONCE, .filled_ms = now_ms};
        users->first = user;
    }
    return user;
}

struct gm_user *gm_user_enter(struct gm_users *users, uid_t uid, int64_t now_ms)
{
    if (users->connections >= GM_CONNECTIONS_MAX) {
        return NULL;
    }
    struct gm_user *user = find(users, uid, now_ms);
    if (user == NULL || user->words < GM_WORDS_TO_CONNECT) {
        return NULL;
    }
    user->words -= GM_WORDS_TO_CONNECT;
    if (user->connections >= GM_CONNECTIONS_PER_USER) {
        return NULL;
    }
    user->connections++;
    users->connections++;
    return user;
}

void gm_user_leave(struct gm_users *users, struct gm_user *user)
{
    user->connections--;
    users->connections--;
}

bool gm_user_speak(struct gm_user *user, int64_t now_ms)
{
    fill(user, now_ms);
    if (user->words == 0) {
        return false;
    }
    user->words--;
    return true;
}

void gm_users_tidy(struct gm_users *users, int64_t now_ms)
{
    for (struct gm_user **link = &users->first; *link != NULL;) {
        struct gm_user *user = *link;
        if (now_ms != INT64_MAX) {
            fill(user, now_ms);
        }
        if (user->connections == 0 && (now_ms == INT64_MAX || user->words == GM_WORDS_AT_ONCE)) {
            *link = user->next;
            free(user);
        } else {
            link = &user->next;
        }
    }
}
