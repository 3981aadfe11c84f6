// Finds S3 credentials. A secret is used for signatures only; no message contains it.

#include "storage/uri/s3/settings.hpp"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>

#include "storage/uri/s3/s3.hpp"

namespace rtrain::storage::s3 {
namespace {

using Section = std::map<std::string, std::string>;

std::string trimmed(const std::string& text) {
    const auto begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
    return begin == text.npos ? "" : text.substr(begin, end - begin + 1);
}

// Reads one section of an ini file. Nested values (indented, as below `s3 =`) are left out.
Section section_of(const std::string& file, const std::string& name) {
    std::ifstream lines(file);
    std::string line;
    Section section;
    bool inside = false;
    while (std::getline(lines, line)) {
        const std::string text = trimmed(line);
        if (text.empty() || text.front() == '#' || text.front() == ';') continue;
        if (text.front() == '[') {
            inside = trimmed(text.substr(1, text.find(']') - 1)) == name;
            continue;
        }
        const auto equals = text.find('=');
        if (!inside || equals == text.npos || line.front() == ' ' || line.front() == '\t') continue;
        section[trimmed(text.substr(0, equals))] = trimmed(text.substr(equals + 1));
    }
    return section;
}

std::string home_directory(const Variables& variables) {
    if (const std::string home = variables("HOME"); !home.empty()) return home;
    char space[4096];
    passwd entry{};
    passwd* account = nullptr;
    ::getpwuid_r(::getuid(), &entry, space, sizeof space, &account);
    return account != nullptr ? account->pw_dir : "";
}

std::string first_of(std::initializer_list<std::string> texts) {
    for (const std::string& text : texts)
        if (!text.empty()) return text;
    return "";
}

struct Files {
    std::string profile, credentials_file, config_file;
    Section credentials, config;
};

Files read_files(const Variables& variables) {
    Files files;
    const std::string below = home_directory(variables) + "/.aws/";
    files.profile = first_of({variables("AWS_PROFILE"), variables("AWS_DEFAULT_PROFILE"), "default"});
    files.credentials_file = first_of({variables("AWS_SHARED_CREDENTIALS_FILE"), below + "credentials"});
    files.config_file = first_of({variables("AWS_CONFIG_FILE"), below + "config"});
    files.credentials = section_of(files.credentials_file, files.profile);
    files.config = section_of(files.config_file, files.profile == "default" ? "default" : "profile " + files.profile);
    return files;
}

Credentials of_section(Section& section, const std::string& source) {
    return {.key_id = section["aws_access_key_id"],
            .secret = section["aws_secret_access_key"],
            .token = section["aws_session_token"],
            .source = source};
}

bool whole(const Credentials& credentials) { return !credentials.key_id.empty() && !credentials.secret.empty(); }

Credentials find_credentials(const Variables& variables, Files& files) {
    const Credentials set{.key_id = variables("AWS_ACCESS_KEY_ID"),
                          .secret = variables("AWS_SECRET_ACCESS_KEY"),
                          .token = variables("AWS_SESSION_TOKEN"),
                          .source = "AWS_ACCESS_KEY_ID in the environment"};
    if (whole(set)) return set;
    if (auto kept = of_section(files.credentials, "profile " + files.profile + " of " + files.credentials_file);
        whole(kept))
        return kept;
    if (auto kept = of_section(files.config, "profile " + files.profile + " of " + files.config_file); whole(kept))
        return kept;
    return set;
}

std::string endpoint_of(const Variables& variables, Files& files) {
    std::string url = first_of({variables("AWS_ENDPOINT_URL_S3"), variables("AWS_ENDPOINT_URL"),
                                files.config["endpoint_url"], files.credentials["endpoint_url"]});
    while (url.ends_with('/')) url.pop_back();
    return url;
}

// `why_not_lent`: the answer of the service that lends credentials; nullopt: no service was asked.
Error none_found(const Files& files, const std::optional<Error>& why_not_lent) {
    return {
        ErrorCode::unauthorised,
        "no S3 credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both set, and profile '" +
            files.profile + "' is not in " + files.credentials_file +
            (why_not_lent ? ", and no role of a container or an EC2 instance lends any (" + why_not_lent->message + ")"
                          : ""),
        "for a job, name both in its spec (secrets: [AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY]) and set them where you "
        "submit; for this command or an agent, set them in its environment, or write them into that file"};
}

}  // namespace

Result<Settings> read_settings(const Variables& variables, const Lender& lend) {
    Files files = read_files(variables);
    Settings settings;
    settings.credentials = find_credentials(variables, files);
    if (!whole(settings.credentials)) {
        if (!lend) return none_found(files, std::nullopt);
        const auto lent = lend();
        if (!lent) return none_found(files, lent.error());
        settings.credentials = *lent;
    }
    settings.region = first_of({variables("AWS_REGION"), variables("AWS_DEFAULT_REGION"), files.config["region"],
                                files.credentials["region"], settings.region});
    if (settings.region.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
        std::string::npos)
        return Error{ErrorCode::invalid, "AWS_REGION is '" + settings.region + "'", "give it as us-east-1"};
    settings.endpoint = endpoint_of(variables, files);
    if (!settings.endpoint.empty() && !settings.endpoint.starts_with("http://") &&
        !settings.endpoint.starts_with("https://"))
        return Error{ErrorCode::invalid, "AWS_ENDPOINT_URL is '" + settings.endpoint + "'",
                     "give it as http://host:port or https://host:port"};
    settings.ca_bundle = first_of({variables("AWS_CA_BUNDLE"), files.config["ca_bundle"]});
    const int attempts = std::atoi(first_of({variables("AWS_MAX_ATTEMPTS"), files.config["max_attempts"]}).c_str());
    if (attempts > 0) settings.attempts = attempts;
    return settings;
}

}  // namespace rtrain::storage::s3

namespace rtrain::storage {

std::string own_s3_endpoint() {
    s3::Files files = s3::read_files(objects::process_variable);
    return s3::endpoint_of(objects::process_variable, files);
}

}  // namespace rtrain::storage
