// Groups the reasons of nodes by text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrain::cmd {

std::string explanation_text(const nlohmann::json& answer);  // `answer`: the JSON of GET /v1/runs/{run}/explain
std::string reasons_text(const nlohmann::json& reasons);     // lines such as " 5 GPUs busy n1 n2 n3 n4 n5"

}  // namespace rtrain::cmd
