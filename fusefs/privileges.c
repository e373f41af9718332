/*
 * privileges.c - see privileges.h.
 */
#include "privileges.h"

#include "log.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int become(const struct passwd *who)
{
    /* All three ids: nothing of root is left to go back to, and with them the capabilities go. */
    if (initgroups(who->pw_name, who->pw_gid) < 0 || setresgid(who->pw_gid, who->pw_gid, who->pw_gid) < 0 ||
        setresuid(who->pw_uid, who->pw_uid, who->pw_uid) < 0) {
        int error = errno;
        gm_log("cannot become the user %s: %s", who->pw_name, strerror(error));
        return -error;
    }
    return 0;
}

int gm_privileges_drop(const char *user)
{
    bool asked = user[0] != '\0';
    if (geteuid() != 0) {
        return 0;
    }
    /* cppcheck-suppress getpwnamCalled ; no other thread is there yet */
    const struct passwd *who = getpwnam(asked ? user : GM_USER);
    if (who == NULL && asked) {
        gm_log("there is no user %s; give another --user", user);
        return -ENOENT;
    }
    int rc = who != NULL && who->pw_uid != 0 ? become(who) : 0;
    if (rc == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    return rc;
}
