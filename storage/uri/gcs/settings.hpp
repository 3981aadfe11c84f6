// Credentials and settings of Google Cloud Storage, from the places that Google's own programs read: the environment,
// then files, then the metadata server. Used inside of storage/uri and by its tests only.
#pragma once

#include <cstdint>
#include <string>

#include "storage/uri/objects/client.hpp"
#include "storage/uri/s3/signature.hpp"

namespace rtrain::storage::gcs {

using objects::Variables;

enum class Kind {
    anonymous,        // an emulator without credentials
    hmac,             // an HMAC key, which signs each request
    token,            // an access token that was given and cannot be renewed
    service_account,  // a key that signs requests for tokens
    authorized_user,  // the refresh token of `gcloud auth application-default login`
    metadata,         // the service account of this machine or pod
};

struct Account {                                          // the content of a credentials file
    std::string email, key_id, private_key;               // for a service account
    std::string client_id, client_secret, refresh_token;  // for a user
    std::string token_server;                             // URL
    bool operator==(const Account&) const = default;
};

struct Settings {
    Kind kind = Kind::anonymous;
    s3::Credentials hmac;
    std::string token;
    Account account;
    std::string source;    // where the credentials were found, as text
    std::string endpoint;  // "https://storage.googleapis.com"
    std::string metadata_server;
    std::string why_no_file;  // why no credentials file was used, for the message of the last place
    std::string ca_bundle;    // path of a file; empty: the system's
    int attempts = 6;         // the most tries per request
};
Result<Settings> read_settings(const Variables&);

// Reads the content of a credentials file. `source`: the name of the file or variable, for messages.
Result<Settings> read_account(const std::string& json_text, const std::string& source);

}  // namespace rtrain::storage::gcs
