/* The shim: the tiny parent of one worker. It puts the worker into a session of its own, writes `started` and `exit`
 * files, and outlives the agent, so that a restarted agent can adopt the worker. A worker whose shim dies gets SIGKILL.
 */
#ifndef RTRAIN_AGENT_SHIM_H
#define RTRAIN_AGENT_SHIM_H
#ifdef __cplusplus
extern "C" {
#endif

/* rtrain __shim DIR OUT ERR CWD UID GID USER WAIT_MS -- PROGRAM ARGUMENTS...
 * The environment is the worker's. DIR: where `started` and `exit` go. OUT, ERR: appended to. UID -1: stay who we are.
 * WAIT_MS: how long the worker, already a process, waits before it becomes PROGRAM.
 * Where it cannot write into DIR it starts nothing, writes nothing and ends with the errno.
 * Descriptor 3, when open, gets one byte once `started` is written, and is closed when nothing was started. */
int shim_main(int argc, char** argv);

#ifdef __cplusplus
}
#endif
#endif
