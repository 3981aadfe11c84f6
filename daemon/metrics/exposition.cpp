// The library's serializer writes the text. Its stream writes numbers with the fewest digits that are read back as the
// same number, so that the bounds of histograms ("1e-04") are spelled as in earlier releases.
#include "daemon/metrics/exposition.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <locale>
#include <ostream>
#include <streambuf>
#include <utility>

namespace rtrain::metrics {
namespace {

class ShortestNumbers : public std::num_put<char> {
  protected:
    iter_type do_put(iter_type to, std::ios_base&, char_type, double value) const override {
        constexpr double exact_most = 9007199254740992.0;  // 2^53
        char text[32];
        const bool whole = std::trunc(value) == value && std::fabs(value) <= exact_most;
        const auto end = whole ? std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(value))
                               : std::to_chars(text, text + sizeof text, value);
        for (const char* digit = text; digit != end.ptr; ++digit) *to++ = *digit;
        return to;
    }
};

// The serializer gives its stream the classic locale first. This buffer then gives the stream the locale of numbers.
class TextBuffer : public std::streambuf {
  public:
    TextBuffer() { setp(block_, block_ + sizeof block_); }
    std::ostream& stream() { return stream_; }
    std::string take() {
        append_block();
        return std::move(text_);
    }

  private:
    void append_block() {
        text_.append(pbase(), pptr());
        setp(block_, block_ + sizeof block_);
    }
    int_type overflow(int_type character) override {
        append_block();
        return sputc(traits_type::to_char_type(character));
    }
    void imbue(const std::locale& given) override {
        if (given != numbers_) stream_.imbue(numbers_);
    }

    const std::locale numbers_{std::locale::classic(), new ShortestNumbers};  // the locale owns the facet
    std::ostream stream_{this};
    std::string text_;
    char block_[16'384];
};

}  // namespace

std::string exposition_text(const std::vector<Part>& parts) {
    TextBuffer buffer;
    const prometheus::TextSerializer serializer;
    for (const prometheus::Collectable& part : parts) serializer.Serialize(buffer.stream(), part.Collect());
    return buffer.take();
}

}  // namespace rtrain::metrics
