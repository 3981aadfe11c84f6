// The text of runtime/python/rtrain/_template.py. The binary has it, since a job's Python may lack the package.
#pragma once

namespace rtrain::agent {

extern const char* const template_text;

}  // namespace rtrain::agent
