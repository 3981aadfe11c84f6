// Chooses the template that a worker can be forked from. The key of a template covers everything that its processes
// have from their start. A worker without a fitting template starts plainly. Reads no file but the program's
// interpreter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/agent/workers/environment.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

struct TemplateSpec {
    std::string key{};  // see `key_of`
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
    std::vector<std::string> program{};  // as /proc shows it, without the shell of the entrypoint
    Environment environment{};
    std::vector<std::string> folders{};  // further folders from which the program imports
};
struct TemplateWish {
    WorkerStart start{};
    std::string token_user{};
    std::vector<std::string> preload{};
    std::vector<std::string> secrets{};  // the names of the secrets
    std::string path{};                  // the PATH without the entry that the attempt has added
    std::string interpreter{};           // the job's interpreter; the `python` that the attempt has added runs it
    std::string added_path{};            // the directory of that `python`
    std::string working_dir{};
};
struct TemplateChoice {
    std::string why_not{};  // empty if the template fits
    TemplateSpec spec{};
    WarmStart start{};
};
// Returns the path of the program's interpreter; empty if the first word is no interpreter of Python.
std::string interpreter_of(const TemplateWish& wish);
TemplateChoice choose_template(const TemplateWish& wish);
std::string key_of(const TemplateSpec& spec);  // the hash of all fields except `key`

}  // namespace rtrain::agent
