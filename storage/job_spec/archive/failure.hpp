// Translates system errors (errno) into messages for users who pack and unpack code.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/result.hpp"

namespace rtrain::spec {

inline Error failure(const std::string& doing, const std::string& path, int error_number) {
    return {error_number == ENOSPC || error_number == EDQUOT ? ErrorCode::full : ErrorCode::io,
            doing + " " + path + ": " + std::strerror(error_number), ""};
}

}  // namespace rtrain::spec
