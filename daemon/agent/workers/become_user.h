/* How a process of the agent becomes a worker's user: between fork and exec, system calls only. */
#ifndef RTRAIN_AGENT_BECOME_USER_H
#define RTRAIN_AGENT_BECOME_USER_H
#ifdef __cplusplus
extern "C" {
#endif

/* Gives the calling process the user `uid` and the group `gid`, without any capability, in a session keyring of its
 * own; uid -1: stays who it is. The supplementary groups are the caller's to set before. Unless `may_gain`, no program
 * that it starts gains rights either: no_new_privs, an empty bounding set, and no capabilities for a root that comes
 * back. With it, sudo and the like work as on a login, so the bounding set is left as it is.
 * 0, or -1 with errno; the process must not go on then. */
int become_user(long uid, long gid, int may_gain);

#ifdef __cplusplus
}
#endif
#endif
