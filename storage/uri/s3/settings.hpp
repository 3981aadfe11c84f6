// Credentials and settings as other S3 programs read them: the environment, then ~/.aws/credentials and ~/.aws/config.
// Inside of storage/uri only, and for its tests.
#pragma once

#include <functional>
#include <string>

#include "storage/uri/s3/signature.hpp"

namespace rtrain::storage::s3 {

using Variables = std::function<std::string(const std::string& name)>;  // empty: not set
std::string process_variable(const std::string& name);

struct Settings {
    Credentials credentials;
    std::string region = "us-east-1";
    std::string endpoint;   // "http://host:port"; empty: Amazon's
    std::string ca_bundle;  // a file; empty: the system's
    int attempts = 6;       // of one request
};
// `lend` is asked when neither the environment nor a file has a key; what is missing then is said with all these
// places.
using Lender = std::function<Result<Credentials>()>;
Result<Settings> read_settings(const Variables&, const Lender& lend = {});

}  // namespace rtrain::storage::s3
