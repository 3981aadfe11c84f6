#include "daemon/agent/disk/start_state.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;

std::string file_in(const std::string& attempt_directory) { return attempt_directory + "/begin.json"; }

}  // namespace

Status keep(const StartState& state, const std::string& attempt_directory) {
    const json fields{{"checkpoint_path", state.checkpoint_path},
                      {"checkpoint_metrics", state.checkpoint_metrics},
                      {"reports_before", state.reports_before}};
    const std::string text = json_text(fields);
    return write_whole(file_in(attempt_directory), text, 0600, Durable::no);
}

Result<StartState> read_start_state(const std::string& attempt_directory) {
    const auto text = read_whole(file_in(attempt_directory));
    if (!text) return Error{ErrorCode::not_found, "reading " + file_in(attempt_directory) + " failed", ""};
    const json in = parse_json(*text);
    const bool whole = in.is_object() && in.contains("checkpoint_path") && in["checkpoint_path"].is_string() &&
                       in.contains("checkpoint_metrics") && in["checkpoint_metrics"].is_string() &&
                       in.contains("reports_before") && in["reports_before"].is_number_unsigned();
    if (!whole) return Error{ErrorCode::damaged, file_in(attempt_directory) + " is damaged", ""};
    return StartState{.checkpoint_path = in["checkpoint_path"],
                      .checkpoint_metrics = in["checkpoint_metrics"],
                      .reports_before = in["reports_before"]};
}

}  // namespace rtrain::agent
