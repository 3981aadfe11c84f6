// What S3 answers, read by pugixml: of its XML a few elements matter. Inside of storage/uri only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::storage::s3 {

using Element = std::map<std::string, std::string>;  // the texts of its children, by their names; the first of a name

// Returns the elements `name` at any depth, in their order. Nothing where `xml` is no XML.
std::vector<Element> elements(std::string_view xml, std::string_view name);
std::string element(std::string_view xml, std::string_view name);  // the first one's own text; empty: there is none
bool is_answer(std::string_view xml, std::string_view root);  // whether it is whole, and `root` its outermost element
std::string xml_text(std::string_view text);                  // with & < >, quotes and returns written out

}  // namespace rtrain::storage::s3
