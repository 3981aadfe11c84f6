// SHA-256 of bytes. Inside of storage/checkpoint only; `hash_file` is the public one.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::storage {

std::string hash_bytes(std::string_view bytes);  // lower-case hex

}  // namespace rtrain::storage
