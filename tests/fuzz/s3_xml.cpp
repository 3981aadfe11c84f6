// Fuzzes the responses of a server that claims to be an object store.
#include <algorithm>

#include "storage/uri/objects/xml.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain::storage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = rtrain::fuzz::text_of(data, size);
    for (const char* name : {"Contents", "Upload", "Error"})
        for (const objects::Element& one : objects::elements(text, name))
            for (const auto& [field, value] : one)
                rtrain::fuzz::promise(field.size() + value.size() <= size, "an element is a part of the text");
    for (const char* name : {"IsTruncated", "NextContinuationToken", "EncodingType", "Region"})
        (void)objects::element(text, name);
    const bool is_text = std::none_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
    });
    rtrain::fuzz::promise(!is_text || objects::element("<Key>" + objects::xml_text(text) + "</Key>", "Key") == text,
                          "a key goes there and back");
    return 0;
}
