// Whether a worker can be forked from a template, and from which: a template is known by all that its processes have
// from their start. What does not fit is a plain start. Reads the program's interpreter, nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/agent/workers/environment.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

struct TemplateSpec {
    std::string key{};  // of the whole
    std::string token_user{};
    WorkerUser user{};
    bool allow_setuid = false;
    std::string python{};                // an absolute path
    std::vector<std::string> modules{};  // imported in this order
    Environment environment{};           // without the variables of an attempt, without secrets
};
// How a worker is forked from its template.
struct WarmStart {
    std::int64_t threads = 1;
    std::vector<std::string> program{};  // as /proc shows it: without the shell of the entrypoint
    Environment environment{};
    std::vector<std::string> folders{};  // where the program imports from, beside its own
};
struct TemplateWish {
    WorkerStart start{};
    std::string token_user{};
    std::vector<std::string> preload{};
    std::vector<std::string> secrets{};  // their names
    std::string path{};                  // of the node's programs, without what the attempt has added
    std::string interpreter{};           // the job's; meant by a `python` that the attempt has added to its path
    std::string added_path{};            // the directory of it
    std::string working_dir{};
};
struct TemplateChoice {
    std::string why_not{};  // empty: it fits
    TemplateSpec spec{};
    WarmStart start{};
};
// Returns the path of the interpreter that the program runs; empty: its first word is no interpreter of Python.
std::string interpreter_of(const TemplateWish& wish);
TemplateChoice choose_template(const TemplateWish& wish);
std::string key_of(const TemplateSpec& spec);  // of all but `key`

}  // namespace rtrain::agent
