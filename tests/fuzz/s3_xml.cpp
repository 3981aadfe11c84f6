// The answers of a server that claims to be S3.
#include "storage/uri/s3/xml.hpp"
#include "tests/fuzz/input.hpp"

using namespace rtrain::storage;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = rtrain::fuzz::text_of(data, size);
    for (const char* name : {"Contents", "Upload", "Error"})
        for (const std::string_view inside : s3::elements(text, name)) {
            rtrain::fuzz::promise(inside.data() >= text.data() && inside.data() + inside.size() <= text.data() + size,
                                  "an element is a part of the text");
            for (const char* field : {"Key", "Size", "Code", "Message", "UploadId"}) (void)s3::element(inside, field);
        }
    for (const char* name : {"IsTruncated", "NextContinuationToken", "EncodingType", "Region"})
        (void)s3::element(text, name);
    rtrain::fuzz::promise(s3::element("<Key>" + s3::xml_text(text) + "</Key>", "Key") == text,
                          "a key goes there and back");
    return 0;
}
