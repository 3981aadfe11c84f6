// Checkpoints of the attempts on this node: fetched before their workers start, then listed, uploaded and committed.
#pragma once

#include <string>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class Checkpoints {
  public:
    Checkpoints(Inputs inputs, net::Background background, const ThisNode& node, LiveAttempts& attempts)
        : inputs_(inputs), background_(background), node_(node), attempts_(attempts) {}

    void fetch(const FetchCheckpoint& out);
    void list_staged(const ListStaged& out);
    void drop_staged(const DropStaged& out);
    void upload(const Upload& out);
    void write_manifest(const WriteManifest& out);
    void drop_uncommitted(const DropUncommitted& out);
    // Files that were sent from here stay for the next attempt, until the run has ended.
    void keep_committed(const KeepCommitted& out);
    void drop_kept(std::uint64_t run);
    // Checks whether the pending checkpoint of an adopted attempt is committed by now.
    void look_for_commit(AttemptKey key, const SavedAttempt& saved);

  private:
    void start_with(AttemptKey key, StartState start_state, std::string why);

    const Inputs inputs_;
    const net::Background background_;
    const ThisNode& node_;
    LiveAttempts& attempts_;
};

}  // namespace rtrain::agent
