// Writes all bytes to a descriptor.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace rtrain::storage {

// Returns 0 after all bytes are written, else errno. Repeats a call that a signal interrupts. Returns EIO if a call
// writes nothing and reports no error, because that could repeat for ever.
inline int write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        if (written == 0) return EIO;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return 0;
}

}  // namespace rtrain::storage
