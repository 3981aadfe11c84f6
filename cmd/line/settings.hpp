// Finds the value of each setting: flag > RTRAIN_* > context (~/.config/rtrain/config.yaml) > /etc/rtrain/config.yaml >
// default. `rtrain config show --origin` prints the same values with their origins.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::cmd {

struct Arguments;

// The address and the credentials of one cluster. `ca` is PEM text. In files and flags it may be the path of a PEM
// file.
struct Place {
    std::string address;  // address of the head: HOST:PORT
    std::string token;
    std::string ca;
    std::string ca_fingerprint;  // SHA-256 of the DER form of the CA certificate; used instead of `ca`
    bool operator==(const Place&) const = default;
};

struct ConfigFile {
    std::string current;
    std::map<std::string, Place> contexts;
    std::map<std::string, std::string> defaults;  // defaults of the settings `output` and `color`
    bool operator==(const ConfigFile&) const = default;
};

// Returns an empty configuration if the file is missing. Fails with `invalid` and a position if the file is wrong.
Result<ConfigFile> read_config(const std::string& path);
Status write_config(const std::string& path, const ConfigFile& config);  // writes with mode 0600, atomically
std::string config_text(const ConfigFile& config);
// path of the user's configuration: --config, else RTRAIN_CONFIG, else ~/.config/rtrain/config.yaml
std::string user_config_path(const Arguments& arguments);
// Changes the contexts in the user's file: adds or replaces `put`, removes `remove`, and makes `current` the current
// one (nullopt: it does not change). Holds a lock, so that concurrent commands keep each other's changes.
Status change_config(const std::string& path, const std::map<std::string, Place>& put,
                     const std::vector<std::string>& remove, const std::optional<std::string>& current);

struct Setting {
    std::string name, value, origin;
};
class Settings {
  public:
    static Result<Settings> load(const Arguments& arguments);
    // `name`: context, address, token, ca, ca_fingerprint, output or color
    const std::string& value(const std::string& name) const;
    const std::vector<Setting>& all() const { return settings_; }

  private:
    std::vector<Setting> settings_;
};

// Returns the token from --token, --token-file or RTRAIN_JOIN_TOKEN, in this order; empty if none is given. Fails if
// every user may read the file.
Result<std::string> join_token(const Arguments& arguments);
struct HostPort {
    std::string host;
    std::uint16_t port = 7433;
};
Result<HostPort> parse_host_port(const std::string& text, std::uint16_t default_port);
// parses the values of the flag --label: KEY=VALUE
Result<std::map<std::string, std::string>> parse_labels(const std::vector<std::string>& given);
// joins host and port; writes brackets around an IPv6 address
std::string host_port_text(const std::string& host, std::uint16_t port);

std::string environment(const char* name);  // value of a variable; empty if it is not set
std::string data_home();  // parent of data directories: /var/lib/rtrain for root, else rtrain in the user's data folder

}  // namespace rtrain::cmd
