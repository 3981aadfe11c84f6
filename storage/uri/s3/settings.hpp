// Credentials and settings from the same places as in other S3 programs: the environment, then ~/.aws/credentials and
// ~/.aws/config. Used inside of storage/uri and by its tests only.
#pragma once

#include <functional>
#include <string>

#include "storage/uri/s3/signature.hpp"

namespace rtrain::storage::s3 {

using objects::Variables;

struct Settings {
    Credentials credentials;
    std::string region = "us-east-1";
    std::string endpoint;   // "http://host:port"; empty: Amazon's
    std::string ca_bundle;  // path of a file; empty: the system's
    int attempts = 6;       // the most tries per request
};
// `lend` is called if neither the environment nor a file has a key. The Error for a missing key names all these places.
using Lender = std::function<Result<Credentials>()>;
Result<Settings> read_settings(const Variables&, const Lender& lend = {});

}  // namespace rtrain::storage::s3
