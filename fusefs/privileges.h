/*
 * privileges.h - letting go of root's rights once what needs them is done: /dev/fuse is open and mounted, the socket is
 * bound. All else works on descriptors and on what /proc shows to everybody.
 */
#ifndef GM_PRIVILEGES_H
#define GM_PRIVILEGES_H

/* Who the daemon becomes where nothing else is said, if there is such a user. */
#define GM_USER "gmlake"

/*
 * As root, becomes @user, or GM_USER where @user is empty, with that user's own groups only and no capability. Without
 * such a user, and for others than root, nothing happens; but -ENOENT, with the reason in the log, if a @user that was
 * asked for is not there. One thread only.
 */
int gm_privileges_drop(const char *user);

#endif
