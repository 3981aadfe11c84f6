// runtime/python/rtrain/_template.py, as a text of this program: a job's Python need not have the package.
#pragma once

namespace rtrain::agent {

extern const char* const template_text;

}  // namespace rtrain::agent
