// The specs of this node's ready templates, in a file of the agent's own: the next agent makes these templates ahead.
// There is no secret in it, as there is none in a template.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/agent/warm/template_spec.hpp"

namespace rtrain::agent {

Status keep_specs(const std::string& file, const std::vector<const TemplateSpec*>& specs);
// None where the file is not there or damaged; without those whose key is not that of their parts.
std::vector<TemplateSpec> kept_specs(const std::string& file);

}  // namespace rtrain::agent
