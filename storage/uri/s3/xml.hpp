// What S3 answers, read: flat XML, of which only a few elements matter. Inside of storage/uri only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain::storage::s3 {

std::vector<std::string_view> elements(std::string_view xml, std::string_view name);  // their contents, as they stand
std::string element(std::string_view xml, std::string_view name);                     // the first's text; empty: none
std::string xml_text(std::string_view text);  // with & < > and the like written out

}  // namespace rtrain::storage::s3
