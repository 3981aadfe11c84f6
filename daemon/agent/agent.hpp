// The agent of a node: joins a cluster, then serves it in the foreground. See README.md for the flow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scheduler/resources.hpp"
#include "scheduler/result.hpp"

namespace rtrain {

struct AgentOptions {
    std::string data_dir;
    std::string head_host;  // empty: as at the last join
    std::uint16_t head_port = 7433;
    std::string node{};              // empty: the host's name
    std::string address{};           // how other nodes reach this one; empty: our end of the connection to the head
    std::uint16_t peer_port = 7434;  // 0: any
    bool allow_root_workers = false;
    std::string storage_rules{};          // a file: which users may use which storage paths; empty: all that it can
    bool allow_setuid = false;            // programs of jobs may gain rights: sudo, ping, fusermount
    bool end_workers = false;             // SIGTERM and SIGINT end the workers too: nobody will come to adopt them
    std::vector<std::string> pass_env{};  // of the agent's environment, for jobs: "NAME", "PREFIX*"
    std::string scratch{};                // node-local fast disk; empty: <data_dir>/scratch
    std::int64_t scratch_quota = 0;       // bytes of it; 0: no quota
    // What the node offers, instead of what is found:
    Resources resources{};
    std::string fake_gpus{};  // "8xA100"
    std::string accelerator_type{};
    Labels labels{};
    std::string program{};  // knows the hidden verb __shim; empty: /proc/self/exe
};

// Makes a key, asks the head for a certificate, keeps both below data_dir (0600). Before anything is sent the head's
// authority is checked against the fingerprint in the token, and this node's offer against the machine, so that a slip
// costs no token. A node that has joined this cluster before keeps its identity.
Status join(const AgentOptions& options, const std::string& token_text);

// Serves until SIGTERM or SIGINT, which leave the workers running (unless `end_workers`): the next start adopts them.
// `ready` is called once, when nothing is left that could keep the agent from serving; its error ends the agent.
Status run_agent(const AgentOptions& options, const std::function<Status()>& ready);

// Takes this node out of its cluster: forgets the identity. Refused while an agent serves from this directory.
Status forget_identity(const std::string& data_dir);

}  // namespace rtrain
