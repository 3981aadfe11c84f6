// Requests keys from the machine's role or service if neither the environment nor a file has one. A machine that is no
// such instance answers within two seconds or not at all.

#include "storage/uri/s3/lent.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

namespace rtrain::storage::s3 {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;
constexpr int patience_s = 2;

// Returns the text of `"name" : "text"`. These answers have no escapes and no nested objects.
std::string field(const std::string& json, const std::string& name) {
    const auto at = json.find("\"" + name + "\"");
    const auto colon = at == json.npos ? at : json.find(':', at + name.size() + 2);
    const auto begin = colon == json.npos ? colon : json.find('"', colon);
    const auto end = begin == json.npos ? begin : json.find('"', begin + 1);
    return end == json.npos ? "" : json.substr(begin + 1, end - begin - 1);
}

std::int64_t unix_time(const std::string& text) {  // Parses 2026-11-21T20:00:00Z; 0 if it is absent.
    std::tm parts{};
    return ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr
               ? 0
               : static_cast<std::int64_t>(::timegm(&parts));
}

Result<std::string> send_request(http::Connections& connections, const std::string& method, const std::string& url,
                                 const Headers& headers) {
    const http::Reply reply = connections.send(
        {.method = method, .url = url, .headers = headers, .body = {}, .connect_s = patience_s, .stall_s = patience_s});
    if (reply.status == 200 && reply.trouble.empty()) return reply.body;
    return Error{ErrorCode::not_found,
                 url + ": " + (reply.trouble.empty() ? "status " + std::to_string(reply.status) : reply.trouble), ""};
}

Result<Credentials> read(const Result<std::string>& json, const std::string& source) {
    if (!json) return json.error();
    Credentials credentials{.key_id = field(*json, "AccessKeyId"),
                            .secret = field(*json, "SecretAccessKey"),
                            .token = field(*json, "Token"),
                            .source = source,
                            .expires_unix_s = unix_time(field(*json, "Expiration"))};
    if (credentials.key_id.empty() || credentials.secret.empty())
        return Error{ErrorCode::not_found, source + " lends no key", ""};
    return credentials;
}

// Returns the one line of a file that holds a token. not_found: the file cannot be read, is empty, or has more than one
// line.
Result<std::string> token_of(const std::string& path) {
    const auto refused = [&](const std::string& why) {
        return Error{ErrorCode::not_found, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is " + path + ", which " + why, ""};
    };
    errno = 0;
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();  // fails if nothing can be read, also for a directory
    if (!text && errno != 0) return refused("cannot be read: " + std::string(std::strerror(errno)));
    std::string token = text.str();
    while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
    if (token.empty()) return refused("is empty");
    if (token.find_first_of("\r\n") != token.npos) return refused("has more than one line");
    return token;
}

Result<Credentials> of_container(const Variables& variables, http::Connections& connections, const std::string& url) {
    Headers headers;
    std::string token = variables("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (const std::string file = variables("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
        auto read_token = token_of(file);
        if (!read_token) return read_token.error();
        token = std::move(*read_token);
    }
    if (!token.empty()) headers.emplace_back("authorization", token);
    return read(send_request(connections, "GET", url, headers), "the container's role");
}

Result<Credentials> of_instance(const Variables& variables, http::Connections& connections) {
    std::string server = variables("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (server.empty()) server = "http://169.254.169.254";
    while (server.ends_with('/')) server.pop_back();
    const auto token = send_request(connections, "PUT", server + "/latest/api/token",
                                    {{"x-aws-ec2-metadata-token-ttl-seconds", "300"}});
    if (!token) return token.error();
    const Headers headers{{"x-aws-ec2-metadata-token", *token}};
    const std::string roles = server + "/latest/meta-data/iam/security-credentials/";
    auto role = send_request(connections, "GET", roles, headers);
    if (!role) return role.error();
    role->resize(std::min(role->find('\n'), role->size()));
    return read(send_request(connections, "GET", roles + *role, headers), "the instance's role " + *role);
}

}  // namespace

Result<Credentials> lent_credentials(const Variables& variables, http::Connections& connections) {
    if (const std::string path = variables("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); !path.empty())
        return of_container(variables, connections, "http://169.254.170.2" + path);
    if (const std::string url = variables("AWS_CONTAINER_CREDENTIALS_FULL_URI"); !url.empty())
        return of_container(variables, connections, url);
    if (variables("AWS_EC2_METADATA_DISABLED") == "true")
        return Error{ErrorCode::not_found, "AWS_EC2_METADATA_DISABLED is set", ""};
    return of_instance(variables, connections);
}

}  // namespace rtrain::storage::s3
