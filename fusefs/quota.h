/*
 * quota.h - what one user's processes may ask of the daemon: so many connections, and so many words in a second. Who
 * asks more harms himself alone.
 *
 * A word is a message; coming in costs several. A user's allowance fills up again while he is silent, whether he stays
 * connected or not.
 * CONCURRENCY  none of its own: the socket thread's.
 */
#ifndef GM_QUOTA_H
#define GM_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Processes of one user, and of all: bounds what strangers can make the daemon hold. */
#define GM_CONNECTIONS_PER_USER 256u
#define GM_CONNECTIONS_MAX      4096u

#define GM_WORDS_PER_SECOND     4096u
#define GM_WORDS_AT_ONCE        8192u
#define GM_WORDS_TO_CONNECT     8u

/* Invariant: it is in the list while it has connections or its allowance is not full. */
struct gm_user {
    struct gm_user *next;
    uid_t uid;
    unsigned connections;
    unsigned words; /* the allowance left at time filled_ms */
    int64_t filled_ms;
};

struct gm_users {
    struct gm_user *first;
    unsigned connections; /* of all */
};

/*
 * Lets one more process of @uid in, or NULL: the user has as many as he may, or comes in too often, or all places are
 * taken, or there is no memory.
 */
struct gm_user *gm_user_enter(struct gm_users *users, uid_t uid, int64_t now_ms);

void gm_user_leave(struct gm_users *users, struct gm_user *user);

/* Takes a word off the allowance; false: there is none left, in a while there will be. */
bool gm_user_speak(struct gm_user *user, int64_t now_ms);

/* Forgets users without connections that have been silent long enough; all of them with INT64_MAX. */
void gm_users_tidy(struct gm_users *users, int64_t now_ms);

#endif
