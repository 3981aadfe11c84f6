// Stores the specs of this node's ready templates in a file that only the agent reads. The next agent makes these
// templates ahead. The file has no secrets, since a template has none.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/agent/warm/template_spec.hpp"

namespace rtrain::agent {

Status keep_specs(const std::string& file, const std::vector<const TemplateSpec*>& specs);
// Returns no specs if the file is missing or damaged. Leaves out specs whose key differs from `key_of`.
std::vector<TemplateSpec> kept_specs(const std::string& file);

}  // namespace rtrain::agent
