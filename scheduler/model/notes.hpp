// One line for people that says what an event did (`rtrain events`). sentences.cpp makes the lines; several of one
// event are joined.
#pragma once

#include <string>

#include "scheduler/model/events.hpp"

namespace rtrain::notes {

std::string head_started();
std::string queues_configured(const std::string& by, const std::string& names);

// ---- runs: `run` is a name
std::string submitted(const Run& run);
std::string array_submitted(const std::string& array, std::size_t runs, const std::string& user);
std::string stopping(const Run& run, JobWords words);
std::string ended(const Run& run, JobWords words);
std::string removed(const Run& run);
std::string priority_changed(const Run& run, std::int32_t before, const std::string& by);
std::string yields_changed(const Run& run, const std::string& by);
std::string stop_metric(const std::string& run, const Reason& why);
std::string shrinks(const Run& run);
std::string backoff(const Run& run, Duration wait);
std::string size_requested(const std::string& run, std::uint32_t workers, const std::string& by);
std::string size_unchanged(const std::string& run, std::size_t workers, std::uint32_t wanted, const Reason& quota);

// ---- attempts
std::string placed(const std::string& run, const Attempt& attempt);
std::string prepared(const std::string& run, const Attempt& attempt);
std::string running(const std::string& run, const Attempt& attempt);
std::string failed(const std::string& run, AttemptId id, const Reason& cause, JobWords words);

// ---- checkpoint requests
std::string checkpoint_requested(const std::string& run, const CheckpointRequest& request);
std::string ends_for(const std::string& run, AttemptId id, const CheckpointRequest& request);
std::string no_checkpoint_in_time(const std::string& run);
std::string until_next_checkpoint(const std::string& run);
std::string not_preempted(const std::string& run);
std::string not_moved(const std::string& run);

// ---- checkpoints
std::string committed(const Run& run, const std::string& directory);
std::string validated(const CheckpointValidated& event);
std::string verified(const CheckpointVerified& event);
std::string deleted(const std::string& directory);
std::string deletes_earlier(const Run& run, const std::string& directories);
std::string no_score(const std::string& metric);

// ---- nodes
std::string node_is(const Node& node);
std::string node_lost(const NodeLost& event);
std::string node_left(const NodeId& node);
std::string draining(const Node& node);
std::string drain_deadline(const NodeId& node);
std::string quarantined(const Node& node);
std::string in_use_again(const NodeId& node);

}  // namespace rtrain::notes
