#include "daemon/agent/warm/kept_specs.hpp"

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;

json json_of(const TemplateSpec& spec) {
    return {{"key", spec.key},
            {"token_user", spec.token_user},
            {"user",
             {{"uid", spec.user.uid},
              {"gid", spec.user.gid},
              {"name", spec.user.name},
              {"home", spec.user.home},
              {"groups", spec.user.groups}}},
            {"allow_setuid", spec.allow_setuid},
            {"python", spec.python},
            {"modules", spec.modules},
            {"environment", spec.environment}};
}

TemplateSpec spec_of(const json& in) {
    const json& user = in.at("user");
    return {.key = in.at("key"),
            .token_user = in.at("token_user"),
            .user = {.uid = user.at("uid"),
                     .gid = user.at("gid"),
                     .name = user.at("name"),
                     .home = user.at("home"),
                     .groups = user.at("groups")},
            .allow_setuid = in.at("allow_setuid"),
            .python = in.at("python"),
            .modules = in.at("modules"),
            .environment = in.at("environment")};
}

}  // namespace

Status keep_specs(const std::string& file, const std::vector<const TemplateSpec*>& specs) {
    json list = json::array();
    for (const TemplateSpec* spec : specs) list.push_back(json_of(*spec));
    return write_whole(file, json_text(list), 0600, Durable::no);
}

std::vector<TemplateSpec> kept_specs(const std::string& file) {
    const auto text = read_whole(file);
    const json list = text ? parse_json(*text) : json();
    std::vector<TemplateSpec> specs;
    if (!list.is_array()) return specs;
    for (const json& kept_spec : list) {
        try {
            if (TemplateSpec spec = spec_of(kept_spec); spec.key == key_of(spec)) specs.push_back(std::move(spec));
        } catch (const json::exception&) {
            continue;  // written by another version
        }
    }
    return specs;
}

}  // namespace rtrain::agent
