// A cluster's status, a run and a node, for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrain::cmd {

std::string status_text(const nlohmann::json& status);
std::string run_line(const nlohmann::json& run);  // one line: what it is doing and why
std::string end_text(const nlohmann::json& run);  // run_line; for a FAILED run also the commands that show its details
// "3 checkpoints never reached the storage; ..." of a run that has ended so; empty: it lost none.
std::string lost_warning(const nlohmann::json& run);
std::string run_text(const nlohmann::json& run, const nlohmann::json& attempts);  // `describe RUN`
std::string node_text(const nlohmann::json& node);                                // `describe NODE`
std::string string_of(const nlohmann::json& value, const char* field);            // empty: absent or null
bool is_terminal(const nlohmann::json& run);
std::string ranks_text(const nlohmann::json& ranks);  // ascending: "rank 3", "ranks 0, 2-9"
std::string clock_text(const std::string& iso);       // "09:12" today, else "2026-01-31 09:12"

}  // namespace rtrain::cmd
