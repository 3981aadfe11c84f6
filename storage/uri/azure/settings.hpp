// Credentials and settings of Azure Blob Storage, from the variables that Azure's own programs read, then from the
// identity of the machine or pod. Used inside of storage/uri and by its tests only.
#pragma once

#include <string>

#include "storage/uri/objects/client.hpp"

namespace rtrain::storage::azure {

using objects::Variables;

enum class Kind {
    shared_key,        // the account's key, which signs each request
    sas,               // a shared access signature, which is a part of each URL
    client_secret,     // a service principal with a secret
    federated,         // a pod's token, exchanged for one of Azure's (AKS workload identity)
    managed_identity,  // the identity of the machine, or of the app
};

struct Identity {
    std::string tenant, client, secret, token_file;
    std::string authority;         // "https://login.microsoftonline.com"
    std::string endpoint, header;  // URL and secret in App Service and Container Apps; empty: the machine's
    std::string machine_server;    // "http://169.254.169.254"
};

struct Settings {
    Kind kind = Kind::managed_identity;
    std::string account;
    std::string key;  // the bytes of the shared key
    std::string sas;  // "sv=...&sig=...", as a part of a URL
    Identity identity;
    std::string source;     // where the credentials were found, as text
    std::string endpoint;   // "https://account.blob.core.windows.net", "http://127.0.0.1:10000/devstoreaccount1"
    std::string ca_bundle;  // path of a file; empty: the system's
    int attempts = 6;       // the most tries per request
};

// A storage path's first part: "container", or "container@account.dfs.core.windows.net".
struct Container {
    std::string name, account, blob_host;  // `account`, `blob_host`: empty if the path has none
};
Result<Container> container_of(const std::string& text);

Result<Settings> read_settings(const Variables&, const Container&);

}  // namespace rtrain::storage::azure
