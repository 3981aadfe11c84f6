// Cuts the bytes of a stream into bodies of frames.
#include <array>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

Result<std::optional<std::string>> FrameReader::next() {
    constexpr std::size_t prefix = 4;
    const std::size_t waiting = buffer_.size() - start_;
    if (waiting < prefix) return std::optional<std::string>{};
    std::size_t size = 0;
    for (std::size_t i = 0; i < prefix; ++i) size = size << 8 | static_cast<unsigned char>(buffer_[start_ + i]);
    if (size > frame_bytes_max) {
        return Error{ErrorCode::invalid,
                     "a frame of " + std::to_string(size) + " bytes was announced; the most is " +
                         std::to_string(frame_bytes_max),
                     "the other end does not speak rtrain's worker protocol, or a broadcast is too large"};
    }
    if (waiting < prefix + size) return std::optional<std::string>{};
    std::optional<std::string> body = buffer_.substr(start_ + prefix, size);
    start_ += prefix + size;
    if (start_ == buffer_.size()) {
        buffer_.clear();
        start_ = 0;
    } else if (start_ > (std::size_t{1} << 20)) {
        buffer_.erase(0, start_);
        start_ = 0;
    }
    return body;
}

}  // namespace rtrain::worker
