#include "runtime/worker/last_error.hpp"

#include <system_error>

namespace rtrain::worker {
namespace {
thread_local std::string text;
}

int failed(int code, std::string message) {
    text = std::move(message);
    return code;
}

const char* last_error() { return text.c_str(); }

std::string errno_text(int error) {
    return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

}  // namespace rtrain::worker
