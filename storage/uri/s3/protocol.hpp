// S3's XML requests: listings, uploads in parts, removal. Google Cloud Storage has the same ones with other headers.
// Used inside of storage/uri only.
#pragma once

#include <memory>

#include "storage/uri/objects/protocol.hpp"

namespace rtrain::storage::s3 {

struct Dialect {
    objects::Traits traits;
    // The header and its value that let a PUT succeed only if there is no object of that key.
    const char *absence_header, *absence_value;
    bool removes_many;  // the server has `POST ?delete`; else each object is removed by a request
};
inline constexpr Dialect amazon_dialect{.traits = {.kind = "S3",
                                                   .condition = "`If-None-Match: *`",
                                                   .keepers = "use a newer version of that server (Amazon S3, Ceph "
                                                              "RGW and MinIO have it)",
                                                   .longest_key = 1'024,
                                                   .writer_header = "x-amz-meta-rtrain-writer"},
                                        .absence_header = "if-none-match",
                                        .absence_value = "*",
                                        .removes_many = true};

std::unique_ptr<objects::Protocol> protocol_of(const Dialect&);

}  // namespace rtrain::storage::s3
