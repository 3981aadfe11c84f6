/* The keeper: the parent of one template and of the workers that are forked from it. It may be root, outlives the
 * agent, and writes `started` and `exit` as the shim does. See docs/warm-workers.md. */
#ifndef RTRAIN_AGENT_KEEPER_H
#define RTRAIN_AGENT_KEEPER_H
#ifdef __cplusplus
extern "C" {
#endif

/* rtrain __keeper LOG UID GID USER RIGHTS -- PROGRAM ARGUMENTS...
 * PROGRAM is the template (runtime/python/rtrain/_template.py); LOG takes what it prints. UID, GID, USER, RIGHTS: as
 * the shim's. The keeper's own environment is empty. Descriptor 4: the template's environment, NUL-ended words.
 * Descriptor 3: a socket of packets to the agent. Each packet of the agent is the order of one worker: NUL-ended words
 *   NUMBER DIR OUT ERR RTRAIN_ATTEMPT=... RTRAIN_NODE=... RANK=...   then what the template gets
 * with the descriptor of the worker's environment, which the fork gets and the template does not. The keeper says
 *   ready PID | unfit WHY | gone | gone WHY       of the template; WHY: how it has failed
 *   started NUMBER SENTINEL | refused NUMBER WHY  once for each order: what is refused runs nowhere
 * When the agent's end closes, the template ends; the keeper ends when no worker is left. */
int keeper_main(int argc, char** argv);

#ifdef __cplusplus
}
#endif
#endif
