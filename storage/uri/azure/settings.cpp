// Finds the account, its server and its credentials. A place that is named but unusable is an error: no other
// credential takes its turn. No message contains a key, a signature or a token.

#include "storage/uri/azure/settings.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/base64.hpp"
#include "storage/uri/azure/azure.hpp"

namespace rtrain::storage::azure {
namespace {

constexpr std::array suffixes{"core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net",
                              "core.cloudapi.de"};
constexpr const char* letters_and_digits = "abcdefghijklmnopqrstuvwxyz0123456789";

bool is_account(const std::string& name) {
    return name.size() >= 3 && name.size() <= 24 && name.find_first_not_of(letters_and_digits) == name.npos;
}

std::string first_of(std::initializer_list<std::string> texts) {
    for (const std::string& text : texts)
        if (!text.empty()) return text;
    return "";
}

Error wrong(const std::string& why, const std::string& next) { return {ErrorCode::invalid, why, next}; }

// Returns an endpoint's URL without a slash at its end.
Result<std::string> endpoint_url(std::string url, const std::string& source) {
    while (url.ends_with('/')) url.pop_back();
    const bool is_http = url.starts_with("http://") || url.starts_with("https://");
    if (!is_http || url.find_first_of("@?# \t\r\n") != url.npos)
        return wrong("the blob endpoint of " + source + " is no URL of a server",
                     "give it as https://host:port or https://host:port/account");
    return url;
}

using Fields = std::map<std::string, std::string>;

// Reads "AccountName=...;AccountKey=...;": values may contain '='.
Fields fields_of(const std::string& connection_string) {
    Fields fields;
    for (std::size_t begin = 0; begin < connection_string.size();) {
        const std::size_t end = std::min(connection_string.find(';', begin), connection_string.size());
        const std::string field = connection_string.substr(begin, end - begin);
        if (const auto equals = field.find('='); equals != field.npos)
            fields[field.substr(0, equals)] = field.substr(equals + 1);
        begin = end + 1;
    }
    return fields;
}

Result<std::string> endpoint_in(const Fields& fields, const std::string& account) {
    const auto field = [&](const char* name) {
        const auto entry = fields.find(name);
        return entry == fields.end() ? std::string() : entry->second;
    };
    const std::string source = "AZURE_STORAGE_CONNECTION_STRING";
    if (const std::string url = field("BlobEndpoint"); !url.empty()) return endpoint_url(url, source);
    if (!is_account(account)) return wrong(source + " has no valid AccountName", "copy it from the account's keys");
    const std::string protocol = first_of({field("DefaultEndpointsProtocol"), "https"});
    const std::string suffix = first_of({field("EndpointSuffix"), suffixes.front()});
    return endpoint_url(protocol + "://" + account + ".blob." + suffix, source);
}

std::string without_question_mark(const std::string& sas) { return sas.starts_with('?') ? sas.substr(1) : sas; }

Status take_key(Settings& settings, const std::string& text, const std::string& source) {
    const auto bytes = base64_decode(text);
    if (!bytes || bytes->empty())
        return Error{ErrorCode::unauthorised, source + " is no account key: it is not base64",
                     "copy key1 or key2 of the storage account"};
    settings.kind = Kind::shared_key;
    settings.key = *bytes;
    settings.source = source;
    return Done{};
}

Status take_sas(Settings& settings, const std::string& text, const std::string& source) {
    settings.kind = Kind::sas;
    settings.sas = without_question_mark(text);
    settings.source = source;
    const bool is_query = settings.sas.find("sig=") != text.npos &&
                          std::all_of(settings.sas.begin(), settings.sas.end(),
                                      [](char c) { return c > 0x20 && c < 0x7f && c != '#' && c != '?'; });
    if (!is_query)
        return Error{ErrorCode::unauthorised, source + " is no shared access signature",
                     "copy the SAS token as it is: sv=...&sig=..."};
    return Done{};
}

Status take_connection_string(Settings& settings, const std::string& text) {
    const Fields fields = fields_of(text);
    const auto field = [&](const char* name) {
        const auto entry = fields.find(name);
        return entry == fields.end() ? std::string() : entry->second;
    };
    const std::string source = "AZURE_STORAGE_CONNECTION_STRING in the environment";
    settings.account = field("AccountName");
    auto endpoint = endpoint_in(fields, settings.account);
    if (!endpoint) return endpoint.error();
    settings.endpoint = *endpoint;
    if (const std::string key = field("AccountKey"); !key.empty()) return take_key(settings, key, source);
    if (const std::string sas = field("SharedAccessSignature"); !sas.empty()) return take_sas(settings, sas, source);
    return Error{ErrorCode::unauthorised, source + " has neither AccountKey nor SharedAccessSignature",
                 "copy the connection string of the storage account"};
}

// Takes the identity of a service principal, of a pod or of the machine.
void take_identity(Settings& settings, const Variables& variables) {
    Identity& identity = settings.identity;
    identity = {.tenant = variables("AZURE_TENANT_ID"),
                .client = variables("AZURE_CLIENT_ID"),
                .secret = variables("AZURE_CLIENT_SECRET"),
                .token_file = variables("AZURE_FEDERATED_TOKEN_FILE"),
                .authority = first_of({variables("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com"}),
                .endpoint = variables("IDENTITY_ENDPOINT"),
                .header = variables("IDENTITY_HEADER"),
                .machine_server = first_of({variables("AZURE_POD_IDENTITY_AUTHORITY_HOST"), "http://169.254.169.254"})};
    while (identity.authority.ends_with('/')) identity.authority.pop_back();
    const bool is_principal = !identity.tenant.empty() && !identity.client.empty();
    if (is_principal && !identity.secret.empty()) {
        settings.kind = Kind::client_secret;
        settings.source = "AZURE_CLIENT_SECRET in the environment";
    } else if (is_principal && !identity.token_file.empty()) {
        settings.kind = Kind::federated;
        settings.source = "AZURE_FEDERATED_TOKEN_FILE in the environment";
    } else {
        settings.kind = Kind::managed_identity;
        settings.source = "the managed identity";
    }
}

// Fails if the path names another account than the credentials.
Status check_account(const Settings& settings, const Container& container) {
    if (container.account.empty() || settings.account.empty() || container.account == settings.account) return Done{};
    return Error{ErrorCode::invalid,
                 "the path names the storage account '" + container.account + "', and the credentials are those of '" +
                     settings.account + "'",
                 "correct storage_path, or set AZURE_STORAGE_ACCOUNT and its key"};
}

Result<std::string> endpoint_of(const Variables& variables, const Settings& settings, const Container& container) {
    if (const std::string url = variables("AZURE_STORAGE_SERVICE_ENDPOINT"); !url.empty())
        return endpoint_url(url, "AZURE_STORAGE_SERVICE_ENDPOINT");
    return "https://" + first_of({container.blob_host, settings.account + ".blob." + suffixes.front()});
}

}  // namespace

Result<Container> container_of(const std::string& text) {
    const auto at = text.find('@');
    Container container{.name = text.substr(0, at), .account = {}, .blob_host = {}};
    if (container.name.find_first_not_of(std::string(letters_and_digits) + "-$") != std::string::npos)
        return wrong("'" + container.name + "' cannot be a container's name", "correct storage_path");
    if (at == text.npos) return container;
    const std::string host = text.substr(at + 1);
    const auto dot = host.find('.');
    container.account = host.substr(0, dot);
    for (const char* suffix : suffixes)
        for (const char* service : {".dfs.", ".blob."})
            if (is_account(container.account) && host == container.account + service + suffix)
                container.blob_host = container.account + ".blob." + suffix;
    if (container.blob_host.empty())
        return wrong("'" + host + "' is no server of Azure's",
                     "give it as abfss://container@account.dfs.core.windows.net/prefix");
    return container;
}

Result<Settings> read_settings(const Variables& variables, const Container& container) {
    Settings settings;
    settings.ca_bundle = variables("SSL_CERT_FILE");
    settings.attempts = objects::tries_of(variables);
    if (const std::string text = variables("AZURE_STORAGE_CONNECTION_STRING"); !text.empty()) {
        if (Status taken = take_connection_string(settings, text); !taken) return taken.error();
        if (Status fine = check_account(settings, container); !fine) return fine.error();
        return settings;
    }
    settings.account = first_of({variables("AZURE_STORAGE_ACCOUNT"), variables("AZURE_STORAGE_ACCOUNT_NAME")});
    const std::string key = first_of({variables("AZURE_STORAGE_KEY"), variables("AZURE_STORAGE_ACCOUNT_KEY")});
    const std::string sas = variables("AZURE_STORAGE_SAS_TOKEN");
    const bool belong_to_account = !key.empty() || !sas.empty();
    if (belong_to_account)
        if (Status fine = check_account(settings, container); !fine) return fine.error();
    if (!container.account.empty()) settings.account = container.account;
    if (!is_account(settings.account))
        return Error{ErrorCode::unauthorised,
                     settings.account.empty()
                         ? "no Azure credentials: neither AZURE_STORAGE_CONNECTION_STRING nor "
                           "AZURE_STORAGE_ACCOUNT is set, and the path names no account"
                         : "AZURE_STORAGE_ACCOUNT is '" + settings.account + "', no account's name",
                     "set AZURE_STORAGE_ACCOUNT, with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN unless a managed "
                     "identity is used; for a job, name them in its secrets and set them where you submit"};
    auto endpoint = endpoint_of(variables, settings, container);
    if (!endpoint) return endpoint.error();
    settings.endpoint = *endpoint;
    Status taken = Done{};
    if (!key.empty())
        taken = take_key(settings, key, "AZURE_STORAGE_KEY in the environment");
    else if (!sas.empty())
        taken = take_sas(settings, sas, "AZURE_STORAGE_SAS_TOKEN in the environment");
    else
        take_identity(settings, variables);
    if (!taken) return taken.error();
    return settings;
}

}  // namespace rtrain::storage::azure

namespace rtrain::storage {

std::string own_azure_endpoint() {
    std::string url = objects::process_variable("AZURE_STORAGE_SERVICE_ENDPOINT");
    if (const std::string text = objects::process_variable("AZURE_STORAGE_CONNECTION_STRING"); !text.empty()) {
        auto server = foreign_blob_server(text);
        return server ? *server : "";
    }
    return url.find("://") == url.npos ? "" : objects::origin_of(url).origin;
}

Result<std::string> foreign_blob_server(const std::string& connection_string) {
    const auto fields = azure::fields_of(connection_string);
    const auto account = fields.find("AccountName");
    const auto endpoint = azure::endpoint_in(fields, account == fields.end() ? "" : account->second);
    if (!endpoint) return endpoint.error();
    const objects::Origin server = objects::origin_of(*endpoint);
    for (const char* suffix : azure::suffixes)
        if (server.origin.starts_with("https://") && server.host.ends_with(std::string(".blob.") + suffix))
            return std::string();
    return server.origin;
}

}  // namespace rtrain::storage
