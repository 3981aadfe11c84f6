// The Shared Key authorisation of Azure Storage:
// https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key. Used inside of storage/uri and by its
// tests only.
#pragma once

#include <cstdint>
#include <string>

#include "storage/uri/objects/client.hpp"

namespace rtrain::storage::azure {

struct Signing {
    std::string method, account, path;  // `path`: encoded, as in the URL
    objects::Parameters query;
    objects::Headers headers;  // all headers that are sent, with x-ms-date and x-ms-version
    std::int64_t body_bytes = 0;
};
std::string text_to_sign(const Signing&);
std::string authorization(const Signing&, const std::string& key);
std::string http_date(std::int64_t unix_s);  // "Fri, 26 Jun 2015 23:39:12 GMT"

}  // namespace rtrain::storage::azure
