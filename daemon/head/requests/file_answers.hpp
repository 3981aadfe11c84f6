// Answers with files from directories that other users may change meanwhile (files/plain_files.hpp).
#pragma once

#include <functional>
#include <string>

#include "daemon/head/files/plain_files.hpp"
#include "daemon/head/requests/exchange.hpp"

namespace rtrain::head {

// Opens a file on the pool, and answers with its content. `place`: the storage that the opening may wait for.
void send_plain(Exchange& exchange, const std::string& place, std::function<Result<storage::Descriptor>()> open);

}  // namespace rtrain::head
