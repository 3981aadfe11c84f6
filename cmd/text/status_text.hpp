// Makes texts for people about a cluster's status, a run and a node.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrain::cmd {

std::string status_text(const nlohmann::json& status);
std::string run_line(const nlohmann::json& run);  // one line: what the run is doing and why
// the same as run_line; for a FAILED run also the commands that show its details
std::string end_text(const nlohmann::json& run);
// Returns a warning if an ended run has lost checkpoints: "3 checkpoints never reached the storage; ...". Returns an
// empty text otherwise.
std::string lost_warning(const nlohmann::json& run);
std::string run_text(const nlohmann::json& run, const nlohmann::json& attempts);  // the output of `rtrain describe RUN`
std::string node_text(const nlohmann::json& node);  // the output of `rtrain describe NODE`
// the field as a string; empty if the field is absent or null
std::string string_of(const nlohmann::json& value, const char* field);
bool is_terminal(const nlohmann::json& run);
std::string ranks_text(const nlohmann::json& ranks);  // ranks in ascending order: "rank 3", "ranks 0, 2-9"
std::string clock_text(const std::string& iso);       // the time in short: "09:12" today, else "2026-01-31 09:12"

}  // namespace rtrain::cmd
