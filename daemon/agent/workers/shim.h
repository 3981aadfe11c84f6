/* The shim: the tiny parent of one worker. It puts the worker into a session of its own, writes `started` and `exit`
 * files, and outlives the agent, so that a restarted agent can adopt the worker. A worker whose shim dies gets SIGKILL.
 */
#ifndef RTRAIN_AGENT_SHIM_H
#define RTRAIN_AGENT_SHIM_H
#ifdef __cplusplus
extern "C" {
#endif

/* rtrain __shim DIR OUT ERR CWD UID GID USER WAIT_MS RIGHTS ATTEMPT NODE -- PROGRAM ARGUMENTS...
 * Its own environment is empty: it may run as root, and the worker's is what a job says (LD_PRELOAD). Descriptor 4
 * holds the worker's, NUL-ended words in sealed memory, which only the worker takes, once it has become its user. DIR:
 * where `started` and `exit` go. OUT, ERR: appended to. UID -1: stay who we are. WAIT_MS: how long the worker, already
 * a process, waits before it becomes PROGRAM. RIGHTS: "no-setuid", or "allow-setuid": its programs may gain rights (see
 * become_user.h). ATTEMPT, NODE: "RTRAIN_ATTEMPT=..." and "RTRAIN_NODE=..." of the worker, by which it is found before
 * it is PROGRAM. Where it cannot write into DIR it starts nothing, writes nothing and ends with the errno. Descriptor
 * 3, when open, gets one byte once `started` is written, and is closed when nothing was started. */
int shim_main(int argc, char** argv);

#ifdef __cplusplus
}
#endif
#endif
