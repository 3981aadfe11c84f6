// Where a value comes from: flag > RTRAIN_* > context (~/.config/rtrain/config.yaml) > /etc/rtrain/config.yaml >
// default. `rtrain config show --origin` prints exactly what is found here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::cmd {

struct Arguments;

// How to reach one cluster. `ca` is PEM text; in files and flags also a path to it.
struct Place {
    std::string address;  // HOST:PORT
    std::string token;
    std::string ca;
    std::string ca_fingerprint;  // instead of `ca`: sha256 of its DER
    bool operator==(const Place&) const = default;
};

struct ConfigFile {
    std::string current;
    std::map<std::string, Place> contexts;
    std::map<std::string, std::string> defaults;  // output, color
    bool operator==(const ConfigFile&) const = default;
};

Result<ConfigFile> read_config(const std::string& path);  // absent: empty. A wrong one: invalid, with the position
Status write_config(const std::string& path, const ConfigFile& config);  // 0600, whole or not at all
std::string config_text(const ConfigFile& config);
std::string user_config_path(const Arguments& arguments);  // --config, RTRAIN_CONFIG, ~/.config/rtrain/config.yaml
// Changes the user's file under a lock: two commands at once lose nothing.
Status change_config(const std::string& path, const std::map<std::string, Place>& put,
                     const std::vector<std::string>& remove, const std::optional<std::string>& current);

struct Setting {
    std::string name, value, origin;
};
class Settings {
  public:
    static Result<Settings> load(const Arguments& arguments);
    const std::string& value(const std::string& name) const;  // context address token ca ca_fingerprint output color
    const std::vector<Setting>& all() const { return settings_; }

  private:
    std::vector<Setting> settings_;
};

// --token, --token-file or RTRAIN_JOIN_TOKEN, in this order; empty: none was given. A file that everybody may read is
// refused.
Result<std::string> join_token(const Arguments& arguments);
struct HostPort {
    std::string host;
    std::uint16_t port = 7433;
};
Result<HostPort> parse_host_port(const std::string& text, std::uint16_t default_port);
Result<std::map<std::string, std::string>> parse_labels(const std::vector<std::string>& given);  // of --label KEY=VALUE
std::string host_port_text(const std::string& host, std::uint16_t port);                         // brackets around IPv6

std::string environment(const char* name);  // empty: not set
std::string data_home();                    // /var/lib/rtrain as root, else the user's data folder + /rtrain

}  // namespace rtrain::cmd
