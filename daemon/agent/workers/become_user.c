/* Changes the user of a process with system calls. libcap would be a dependency for four calls. */
#define _GNU_SOURCE
#include "daemon/agent/workers/become_user.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Empties the capability bounding set. An agent without CAP_SETPCAP keeps it; no_new_privs holds without it. */
static void empty_bounding_set(void) {
    for (int capability = 0; capability <= 63; ++capability)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) break; /* past the last one, or not allowed */
    prctl(PR_SET_SECUREBITS,
          SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0,
          0);
}

static int drop_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return (int)syscall(SYS_capset, &header, none);
}

static int change_user(uid_t uid, gid_t gid, int may_gain) {
    uid_t real, effective, saved;
    if (!may_gain) empty_bounding_set(); /* before the change of user, which removes the right to do so */
    if (setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) return -1;
    if (getresuid(&real, &effective, &saved) != 0) return -1;
    errno = EPERM;
    if (real != uid || effective != uid || saved != uid) return -1;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no process can read or trace it before its exec */
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0); /* gives up the agent's keys; fails without
                                                                        keyrings, and then there are no keys */
    return 0;
}

int become_user(long uid, long gid, int may_gain) {
    if (uid >= 0 && change_user((uid_t)uid, (gid_t)gid, may_gain) != 0) return -1;
    if (geteuid() != 0 && drop_capabilities() != 0) return -1;
    return may_gain ? 0 : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
