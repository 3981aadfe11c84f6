// See compression.hpp.
#include "storage/state/codec/compression.hpp"

#include <zstd.h>

#include <memory>

#include "base/result.hpp"

namespace rtrain::state {

std::string compressed(std::string_view text, int level) {
    static thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> zstd{ZSTD_createCCtx(),
                                                                                        &ZSTD_freeCCtx};
    ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(zstd.get(), ZSTD_c_checksumFlag, 1);
    std::string frame(ZSTD_compressBound(text.size()), '\0');
    const std::size_t used = ZSTD_compress2(zstd.get(), frame.data(), frame.size(), text.data(), text.size());
    RTRAIN_CHECK(ZSTD_isError(used) == 0, "zstd refuses to compress");
    frame.resize(used);
    return frame;
}

std::optional<std::string> expanded(std::string_view frame, std::size_t most) {
    const unsigned long long size = ZSTD_getFrameContentSize(frame.data(), frame.size());
    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > most) return std::nullopt;
    std::string text(size, '\0');
    const std::size_t got = ZSTD_decompress(text.data(), text.size(), frame.data(), frame.size());
    if (ZSTD_isError(got) != 0 || got != text.size()) return std::nullopt;
    return text;
}

bool expand(std::string_view frame, const std::function<void(std::string_view piece)>& take) {
    const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> zstd{ZSTD_createDCtx(), &ZSTD_freeDCtx};
    RTRAIN_CHECK(zstd != nullptr, "no memory for zstd");
    std::string piece(ZSTD_DStreamOutSize(), '\0');
    ZSTD_inBuffer in{frame.data(), frame.size(), 0};
    while (true) {
        ZSTD_outBuffer out{piece.data(), piece.size(), 0};
        const std::size_t left = ZSTD_decompressStream(zstd.get(), &out, &in);
        if (ZSTD_isError(left) != 0) return false;
        take({piece.data(), out.pos});
        if (left == 0) return in.pos == in.size;
        if (in.pos == in.size && out.pos < out.size) return false;  // The input ended before the frame did.
    }
}

}  // namespace rtrain::state
