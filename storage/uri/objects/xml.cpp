#include "storage/uri/objects/xml.hpp"

#include <pugixml.hpp>

namespace rtrain::storage::objects {
namespace {

// A key may consist of blanks. Entities that a document declares are not expanded.
bool read(pugi::xml_document& document, std::string_view xml) {
    constexpr unsigned int options = pugi::parse_default | pugi::parse_ws_pcdata_single;
    return static_cast<bool>(document.load_buffer(xml.data(), xml.size(), options, pugi::encoding_utf8));
}

// Returns the positions of all elements `name`, in the order of the text.
std::vector<pugi::xml_node> named(const pugi::xml_document& document, std::string_view name) {
    struct Walk : pugi::xml_tree_walker {
        bool for_each(pugi::xml_node& node) override {
            if (node.name() == name) nodes.push_back(node);
            return true;
        }
        std::string_view name;
        std::vector<pugi::xml_node> nodes;
    } walk;
    walk.name = name;
    pugi::xml_document& whole = const_cast<pugi::xml_document&>(document);  // The walk changes nothing.
    whole.traverse(walk);
    return walk.nodes;
}

}  // namespace

std::vector<Element> elements(std::string_view xml, std::string_view name) {
    pugi::xml_document document;
    if (!read(document, xml)) return {};
    std::vector<Element> elements;
    for (const pugi::xml_node& node : named(document, name)) {
        Element& element = elements.emplace_back();
        for (const pugi::xml_node& child : node.children()) {
            const std::string child_name = child.name();
            element.emplace(child_name, child.text().get());
            for (const pugi::xml_attribute& attribute : child.attributes())
                element.emplace(child_name + "@" + attribute.name(), attribute.value());
            for (const pugi::xml_node& inner : child.children())
                if (inner.type() == pugi::node_element)
                    element.emplace(child_name + "/" + inner.name(), inner.text().get());
        }
    }
    return elements;
}

std::string element(std::string_view xml, std::string_view name) {
    pugi::xml_document document;
    if (!read(document, xml)) return {};
    const std::vector<pugi::xml_node> nodes = named(document, name);
    return nodes.empty() ? "" : nodes.front().text().get();
}

bool is_answer(std::string_view xml, std::string_view root) {
    pugi::xml_document document;
    return read(document, xml) && document.document_element().name() == root;
}

std::string xml_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&apos;";
                break;
            case '\r':  // A reader would take it for the end of a line.
                out += "&#13;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

}  // namespace rtrain::storage::objects
