/* The keeper is the parent of one template and of the workers that are forked from it. The keeper may be root, outlives
 * the agent, and writes `started` and `exit` as the shim does. See docs/warm-workers.md. */
#ifndef RTRAIN_AGENT_KEEPER_H
#define RTRAIN_AGENT_KEEPER_H
#ifdef __cplusplus
extern "C" {
#endif

/* rtrain __keeper LOG UID GID USER RIGHTS -- PROGRAM ARGUMENTS...
 * PROGRAM is the template (runtime/python/rtrain/_template.py). LOG is the file for the output of the template. UID,
 * GID, USER and RIGHTS have the shim's meaning. The keeper's own environment is empty. Descriptor 4 has the template's
 * environment as NUL-ended words. Descriptor 3 is a socket of packets to the agent. Each packet of the agent is the
 * order of one worker, as NUL-ended words:
 *   NUMBER DIR OUT ERR RTRAIN_ATTEMPT=... RTRAIN_NODE=... RANK=...   then the words for the template
 * The packet carries the descriptor of the worker's environment. The keeper passes the descriptor to the fork, not to
 * the template. The keeper sends
 *   ready PID | unfit WHY | gone | gone WHY       about the template; WHY: the failure
 *   started NUMBER SENTINEL | refused NUMBER WHY  once for each order; a refused worker does not run
 * The template ends when the agent's end of the socket closes. The keeper ends when no worker is left. */
int keeper_main(int argc, char** argv);

#ifdef __cplusplus
}
#endif
#endif
