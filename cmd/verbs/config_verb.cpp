// Reads and writes ~/.config/rtrain/config.yaml, which holds contexts with their tokens. Only the owner of the file may
// read it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.hpp"
#include "cmd/line/command.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/output.hpp"
#include "cmd/text/suggest.hpp"
#include "storage/job_spec/job.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Error wrong(const std::string& path, const std::string& what) {
    return {.code = ErrorCode::invalid,
            .message = path + ": " + what,
            .next = "correct the file, or move it away and run `rtrain context add`"};
}

Status read_place(const std::string& path, const std::string& name, const json& value, Place& place) {
    if (!value.is_object()) return wrong(path, "contexts." + name + " must be a map with address, token and ca");
    const std::map<std::string, std::string*> fields{{"address", &place.address},
                                                     {"token", &place.token},
                                                     {"ca", &place.ca},
                                                     {"ca_fingerprint", &place.ca_fingerprint}};
    for (const auto& [key, inner] : value.items()) {
        const auto field = fields.find(key);
        if (field == fields.end() || !inner.is_string()) {
            const std::string near = nearest(key, {"address", "token", "ca", "ca_fingerprint"});
            return wrong(path, "contexts." + name + "." + key +
                                   (field == fields.end() ? " is not known" : " must be text") +
                                   (near.empty() || near == key ? "" : "; did you mean \"" + near + "\"?"));
        }
        *field->second = inner.get<std::string>();
    }
    return Done{};
}

Status read_top(const std::string& path, const json& value, ConfigFile& config) {
    if (value.is_null()) return Done{};
    if (!value.is_object()) return wrong(path, "must be a map with current and contexts");
    for (const auto& [key, inner] : value.items()) {
        if (key == "current" && inner.is_string()) {
            config.current = inner.get<std::string>();
        } else if (key == "contexts" && inner.is_object()) {
            for (const auto& [name, place] : inner.items())
                if (Status read = read_place(path, name, place, config.contexts[name]); !read) return read;
        } else if (key == "defaults" && inner.is_object()) {
            for (const auto& [name, text] : inner.items())
                config.defaults[name] = text.is_string() ? text.get<std::string>() : json_text(text);
        } else {
            const std::string near = nearest(key, {"current", "contexts", "defaults"});
            return wrong(path, key + (near == key ? " has the wrong type" : " is not known") +
                                   (near.empty() || near == key ? "" : "; did you mean \"" + near + "\"?"));
        }
    }
    return Done{};
}

Error system_error(const std::string& doing) {
    return {
        .code = ErrorCode::io, .message = doing + ": " + std::strerror(errno), .next = "rtrain config show --origin"};
}

}  // namespace

Result<ConfigFile> read_config(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        if (std::filesystem::exists(std::filesystem::path(path))) return system_error("reading " + path);
        return ConfigFile{};
    }
    std::stringstream text;
    text << file.rdbuf();
    const spec::YamlAnswer answer = spec::strict_yaml(text.str());
    if (!answer.problems.empty()) {
        const Problem& p = answer.problems.front();
        return wrong(path + ":" + std::to_string(p.line) + ":" + std::to_string(p.column), p.message);
    }
    ConfigFile config;
    const json value = parse_json(answer.json.empty() ? "null" : answer.json);
    if (Status read = read_top(path, value, config); !read) return read.error();
    return config;
}

std::string config_text(const ConfigFile& config) {
    json value = {{"contexts", json::object()}};
    if (!config.current.empty()) value["current"] = config.current;
    for (const auto& [name, text] : config.defaults) value["defaults"][name] = text;
    for (const auto& [name, place] : config.contexts) {
        json& entry = value["contexts"][name];
        entry = {{"address", place.address}, {"token", place.token}};
        if (!place.ca.empty()) entry["ca"] = place.ca;
        if (!place.ca_fingerprint.empty()) entry["ca_fingerprint"] = place.ca_fingerprint;
    }
    return "# Written by rtrain; holds tokens: keep it to yourself.\n" + yaml_text(value);
}

Status write_config(const std::string& path, const ConfigFile& config) {
    const std::string aside = path + "." + std::to_string(getpid());
    const int file = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return system_error("writing " + aside);
    const std::string text = config_text(config);
    const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
    close(file);
    if (written && rename(aside.c_str(), path.c_str()) == 0) return Done{};
    Error error = system_error("writing " + path);
    unlink(aside.c_str());
    return error;
}

Status change_config(const std::string& path, const std::map<std::string, Place>& put,
                     const std::vector<std::string>& remove, const std::optional<std::string>& current) {
    std::error_code failed;
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, failed);
    const int lock = open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0) return system_error("opening " + path + ".lock");
    flock(lock, LOCK_EX);
    Status done = Done{};
    if (Result<ConfigFile> config = read_config(path); !config) {
        done = config.error();
    } else {
        for (const auto& [name, place] : put) config->contexts[name] = place;
        for (const std::string& name : remove) {
            config->contexts.erase(name);
            if (config->current == name) config->current.clear();
        }
        if (current) config->current = *current;
        done = write_config(path, *config);
    }
    close(lock);
    return done;
}

}  // namespace rtrain::cmd
