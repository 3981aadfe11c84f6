// Answers that are files of directories which others may change meanwhile (files/plain_files.hpp).
#pragma once

#include <functional>
#include <string>

#include "daemon/head/files/plain_files.hpp"
#include "daemon/head/requests/exchange.hpp"

namespace rtrain::head {

// Opens on the pool, and answers with the file. `place` is the storage that it may wait for.
void send_plain(Exchange& exchange, const std::string& place, std::function<Result<storage::Descriptor>()> open);

}  // namespace rtrain::head
