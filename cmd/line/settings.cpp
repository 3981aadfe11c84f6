// Applies the order of precedence of settings.
#include "cmd/line/settings.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/descriptor.hpp"
#include "cmd/line/command.hpp"
#include "cmd/text/suggest.hpp"

namespace rtrain::cmd {
namespace {

constexpr const char* system_config = "/etc/rtrain/config.yaml";

struct Source {
    const char* name;
    const char* variable;
    const char* otherwise;
};
constexpr Source sources[] = {{"address", "RTRAIN_ADDRESS", ""},
                              {"token", "RTRAIN_TOKEN", ""},
                              {"ca", "RTRAIN_CA", ""},
                              {"ca_fingerprint", "RTRAIN_CA_FINGERPRINT", ""},
                              {"output", "RTRAIN_OUTPUT", "table"},
                              {"color", "RTRAIN_COLOR", "auto"}};

struct Layer {
    std::string origin;
    ConfigFile config;
};

std::optional<std::string> from_layer(const Layer& layer, const std::string& context, const std::string& name) {
    const auto place = layer.config.contexts.find(context);
    if (place != layer.config.contexts.end()) {
        if (name == "address") return place->second.address;
        if (name == "token") return place->second.token;
        if (name == "ca") return place->second.ca;
        if (name == "ca_fingerprint") return place->second.ca_fingerprint;
    }
    const auto entry = layer.config.defaults.find(name);
    return entry == layer.config.defaults.end() ? std::nullopt : std::optional(entry->second);
}

Setting context_setting(const Arguments& arguments, const std::vector<Layer>& layers) {
    if (arguments.has("context")) return {"context", arguments.text("context"), "flag --context"};
    if (const std::string named = environment("RTRAIN_CONTEXT"); !named.empty())
        return {"context", named, "environment RTRAIN_CONTEXT"};
    for (const Layer& layer : layers)
        if (!layer.config.current.empty()) return {"context", layer.config.current, layer.origin};
    return {"context", "", "default"};
}

Setting find(const Source& source, const Arguments& arguments, const std::vector<Layer>& layers,
             const std::string& context) {
    const std::string name = source.name;
    if (arguments.has(name)) return {name, arguments.text(name), "flag --" + name};
    if (const std::string value = environment(source.variable); !value.empty())
        return {name, value, std::string("environment ") + source.variable};
    for (const Layer& layer : layers)
        if (const auto value = from_layer(layer, context, name); value && !value->empty())
            return {name, *value, layer.origin};
    return {name, source.otherwise, "default"};
}

// Replaces the path of a PEM file by the file's text.
Status load_pem(Setting& ca) {
    if (ca.value.empty() || ca.value.find("-----BEGIN") != std::string::npos) return Done{};
    std::ifstream file(ca.value);
    if (!file)
        return Error{.code = ErrorCode::not_found,
                     .message = "the CA file " + ca.value + " (" + ca.origin + ") cannot be read",
                     .next = "rtrain config show --origin"};
    std::stringstream text;
    text << file.rdbuf();
    ca.origin += " (" + ca.value + ")";
    ca.value = text.str();
    return Done{};
}

}  // namespace

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::string user_config_path(const Arguments& arguments) {
    if (arguments.has("config")) return arguments.text("config");
    if (const std::string named = environment("RTRAIN_CONFIG"); !named.empty()) return named;
    const std::string folder = environment("XDG_CONFIG_HOME");
    return (folder.empty() ? environment("HOME") + "/.config" : folder) + "/rtrain/config.yaml";
}

std::string data_home() {
    const std::string folder = environment("XDG_DATA_HOME");
    if (!folder.empty()) return folder + "/rtrain";
    if (geteuid() == 0) return "/var/lib/rtrain";
    return environment("HOME") + "/.local/share/rtrain";
}

Result<Settings> Settings::load(const Arguments& arguments) {
    std::vector<Layer> layers;
    std::vector<std::string> names;
    for (const std::string& path : {user_config_path(arguments), std::string(system_config)}) {
        Result<ConfigFile> config = read_config(path);
        if (!config) return config.error();
        for (const auto& [name, place] : config->contexts) names.push_back(name);
        layers.push_back({.origin = path, .config = std::move(*config)});
    }
    Settings settings;
    settings.settings_.push_back(context_setting(arguments, layers));
    const Setting context = settings.settings_.front();
    bool known = context.value.empty();
    for (const std::string& name : names) known = known || name == context.value;
    if (!known) {
        const std::string near = nearest(context.value, names);
        return Error{.code = ErrorCode::not_found,
                     .message = "there is no context \"" + context.value + "\" (" + context.origin + ")" +
                                (near.empty() ? "" : "; did you mean \"" + near + "\"?"),
                     .next = "rtrain context list"};
    }
    for (const Source& source : sources) settings.settings_.push_back(find(source, arguments, layers, context.value));
    for (Setting& setting : settings.settings_)
        if (setting.name == "ca")
            if (Status loaded = load_pem(setting); !loaded) return loaded.error();
    return settings;
}

const std::string& Settings::value(const std::string& name) const {
    for (const Setting& setting : settings_)
        if (setting.name == name) return setting.value;
    RTRAIN_CHECK(false, "no setting " + name);
    std::abort();
}

Result<std::map<std::string, std::string>> parse_labels(const std::vector<std::string>& given) {
    std::map<std::string, std::string> labels;
    for (const std::string& label : given) {
        const auto equals = label.find('=');
        if (equals == label.npos || equals == 0)
            return Error{.code = ErrorCode::usage,
                         .message = "--label: \"" + label + "\" is not KEY=VALUE",
                         .next = "for example --label rack=r1"};
        labels[label.substr(0, equals)] = label.substr(equals + 1);
    }
    return labels;
}

Result<std::string> join_token(const Arguments& arguments) {
    if (arguments.has("token")) return arguments.text("token");
    if (!arguments.has("token-file")) return environment("RTRAIN_JOIN_TOKEN");
    const std::string path = arguments.text("token-file");
    const bool standard_input = path == "-";
    const storage::Descriptor file(standard_input ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat facts{};
    if (!file.open() || ::fstat(file.number(), &facts) != 0)
        return Error{.code = ErrorCode::not_found,
                     .message = "--token-file: " + path + " cannot be opened: " + std::strerror(errno),
                     .next = "rtrain token create --role node makes a token"};
    if (!standard_input && (facts.st_mode & S_IROTH) != 0)
        return Error{.code = ErrorCode::usage,
                     .message = "--token-file: everybody on this machine may read " + path,
                     .next = "chmod 600 " + path};
    char text[4096];
    const ssize_t bytes = ::read(file.number(), text, sizeof text);
    std::string token(text, bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0) token.pop_back();
    if (token.empty())
        return Error{.code = ErrorCode::usage,
                     .message = "--token-file: no token is in " + (standard_input ? "standard input" : path),
                     .next = "rtrain token create --role node makes a token"};
    return token;
}

Result<HostPort> parse_host_port(const std::string& text, std::uint16_t default_port) {
    const Error wrong{.code = ErrorCode::usage,
                      .message = "\"" + text + "\" is not HOST:PORT",
                      .next = "for example 10.0.0.5:7433 or [fd00::5]:7433"};
    std::string rest = text.starts_with("https://") ? text.substr(8) : text;
    while (rest.ends_with("/")) rest.pop_back();
    HostPort answer{.host = rest, .port = default_port};
    const auto bracket = rest.find(']');
    const bool six = rest.starts_with("[") && bracket != rest.npos;
    const auto colon = rest.find(':', six ? bracket : 0);
    // more than one colon without brackets: the text is a bare IPv6 address
    if (!six && colon != rest.npos && rest.find(':', colon + 1) != rest.npos) return answer;
    if (six) answer.host = rest.substr(1, bracket - 1);
    if (!six && colon != rest.npos) answer.host = rest.substr(0, colon);
    if (answer.host.empty() || answer.host.find_first_of(" /@\n") != std::string::npos) return wrong;
    if (colon == rest.npos) return answer;
    const std::string digits = rest.substr(colon + 1);
    if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != digits.npos) return wrong;
    const int port = std::stoi(digits);
    if (port < 1 || port > 65535) return wrong;
    answer.port = static_cast<std::uint16_t>(port);
    return answer;
}

std::string host_port_text(const std::string& host, std::uint16_t port) {
    return (host.find(':') == host.npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

}  // namespace rtrain::cmd
