// The requests of a bucket at Google Cloud Storage, signed or with a bearer token. Used inside of storage/uri and by
// its tests only.
#pragma once

#include <memory>
#include <string>

#include "storage/uri/objects/client.hpp"
#include "storage/uri/s3/protocol.hpp"

namespace rtrain::storage::gcs {

// https://cloud.google.com/storage/docs/xml-api/reference-headers: generation 0 is that of no object.
inline constexpr s3::Dialect dialect{.traits = {.kind = "Google Cloud Storage",
                                                .condition = "`x-goog-if-generation-match: 0`",
                                                .keepers = "is the server that STORAGE_EMULATOR_HOST names complete? "
                                                           "Use Google's, a newer one",
                                                .longest_key = 1'024,
                                                .writer_header = "x-goog-meta-rtrain-writer"},
                                     .absence_header = "x-goog-if-generation-match",
                                     .absence_value = "0",
                                     .removes_many = false};

Result<std::unique_ptr<objects::Client>> open_client(const std::string& bucket, const objects::Variables&);

}  // namespace rtrain::storage::gcs
