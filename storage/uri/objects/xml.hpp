// Reads the few elements of object stores' XML answers that matter, with pugixml. Used inside of storage/uri only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rtrain::storage::objects {

// Texts of an element's children by their names. The first of several children with one name counts. A child's own
// children are named "Properties/Content-Length", its attributes "Name@Encoded".
using Element = std::map<std::string, std::string>;

// Returns the elements `name` at any depth, in document order. Returns nullopt if `xml` is not XML.
std::vector<Element> elements(std::string_view xml, std::string_view name);
// text of the first such element; empty if there is none
std::string element(std::string_view xml, std::string_view name);
// true if `xml` is complete and `root` is its outermost element
bool is_answer(std::string_view xml, std::string_view root);
std::string xml_text(std::string_view text);  // escapes & < >, quotes and carriage returns

}  // namespace rtrain::storage::objects
