#include "io/json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "io/format.h"
#include "io/text.h"

namespace sluice {

namespace {

constexpr size_t depth_max = 128;
constexpr size_t found_bytes_max = 40;  // of a value that a message quotes

// A whole number beyond int64.
struct LargeInteger {
    std::string digits;
    double value;
};

std::string where(std::string_view text, size_t position) {
    const std::string_view before = text.substr(0, std::min(position, text.size()));
    const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
    const size_t line_begin = before.rfind('\n');
    const size_t column =
        line_begin == std::string_view::npos ? before.size() : before.size() - line_begin - 1;
    return cat("line ", line, ", column ", std::max<size_t>(column, 1));
}

// The library's message includes a position of its own and the bytes that it read last, which can
// be anything of any length: keep only what is wrong and what was expected.
std::string reason(std::string_view sentence) {
    const size_t expected = sentence.rfind("; expected ");
    const size_t last_read = sentence.find("; last read: ");
    size_t begin = sentence.find(" - ");
    if (begin != std::string_view::npos) {
        begin += 3;
    } else {
        begin = sentence.find("] ");  // "[json.exception.out_of_range.406] ..."
        begin = begin == std::string_view::npos ? 0 : begin + 2;
    }
    std::string out(sentence.substr(begin, std::min(last_read, expected) - begin));
    if (expected != std::string_view::npos) out += sentence.substr(expected);
    return printable(out);
}

}  // namespace

struct Json::Node {
    using Members = std::vector<std::pair<std::string, Node>>;
    struct Object {
        Members members;               // document order
        std::vector<uint32_t> sorted;  // indices of members, by key
    };
    using Array = std::vector<Node>;
    std::variant<std::nullptr_t, bool, int64_t, LargeInteger, double, std::string, Array, Object>
        value = nullptr;

    const Object* object() const { return std::get_if<Object>(&value); }
    const Array* array() const { return std::get_if<Array>(&value); }
    const Node* find(std::string_view key) const;
};

const Json::Node* Json::Node::find(std::string_view key) const {
    const Object* self = object();
    if (self == nullptr) return nullptr;
    const auto at = std::lower_bound(
        self->sorted.begin(), self->sorted.end(), key,
        [&](uint32_t index, std::string_view k) { return self->members[index].first < k; });
    if (at == self->sorted.end() || self->members[*at].first != key) return nullptr;
    return &self->members[*at].second;
}

// Builds the document from the library's events. The library's own ordered document type searches
// an object from the front for every key added, which is quadratic in the size of the vocabulary.
struct Json::Builder : nlohmann::json_sax<nlohmann::json> {
    std::vector<Node> open;          // containers not closed yet
    std::vector<std::string> names;  // key of the current member, per open container
    Node root;
    std::string problem;
    size_t position = std::string::npos;  // npos: where the reader stopped

    bool refuse(std::string why) {
        problem = std::move(why);
        return false;
    }

    bool add(Node node) {
        if (open.empty()) {
            root = std::move(node);
        } else if (auto* object = std::get_if<Node::Object>(&open.back().value)) {
            object->members.emplace_back(std::move(names.back()), std::move(node));
        } else {
            std::get<Node::Array>(open.back().value).push_back(std::move(node));
        }
        return true;
    }

    bool begin(Node node) {
        if (open.size() == depth_max) {
            return refuse(cat("nested deeper than ", depth_max, " levels"));
        }
        open.push_back(std::move(node));
        names.emplace_back();
        return true;
    }

    bool end() {
        Node node = std::move(open.back());
        open.pop_back();
        names.pop_back();
        return add(std::move(node));
    }

    bool null() override { return add({}); }
    bool boolean(bool value) override { return add({.value = value}); }
    bool number_integer(int64_t value) override { return add({.value = value}); }
    bool number_unsigned(uint64_t value) override {
        if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
            return add({.value = LargeInteger{cat(value), static_cast<double>(value)}});
        }
        return add({.value = static_cast<int64_t>(value)});
    }
    bool number_float(double value, const std::string& text) override {
        if (text.find_first_of(".eE") != std::string::npos) return add({.value = value});
        return add({.value = LargeInteger{text, value}});
    }
    bool string(std::string& value) override { return add({.value = std::move(value)}); }
    bool binary(nlohmann::json::binary_t&) override { return refuse("binary value"); }
    bool start_array(size_t) override { return begin({.value = Node::Array{}}); }
    bool end_array() override { return end(); }
    bool start_object(size_t) override { return begin({.value = Node::Object{}}); }
    bool key(std::string& name) override {
        names.back() = std::move(name);
        return true;
    }
    bool end_object() override {
        auto& object = std::get<Node::Object>(open.back().value);
        object.sorted.resize(object.members.size());
        for (uint32_t i = 0; i < object.sorted.size(); ++i) object.sorted[i] = i;
        const auto name = [&](uint32_t i) -> const std::string& { return object.members[i].first; };
        std::sort(object.sorted.begin(), object.sorted.end(),
                  [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
        const auto twice =
            std::adjacent_find(object.sorted.begin(), object.sorted.end(),
                               [&](uint32_t a, uint32_t b) { return name(a) == name(b); });
        if (twice != object.sorted.end()) {
            return refuse(cat("duplicate key \"", printable(name(*twice)), "\" in an object"));
        }
        return end();
    }
    bool parse_error(size_t at, const std::string&,
                     const nlohmann::detail::exception& error) override {
        position = at;
        return refuse(reason(error.what()));
    }
};

namespace {

// Counts the bytes that the parser has consumed, so that our own refusals can give a position.
class CountingIterator {
 public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountingIterator(const char* at, size_t* taken) : at_(at), taken_(taken) {}
    reference operator*() const { return *at_; }
    CountingIterator& operator++() {
        ++at_;
        ++*taken_;
        return *this;
    }
    bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
    const char* at_;
    size_t* taken_;
};

}  // namespace

Json::Json() : node_(std::make_shared<const Node>()) {}

Json::Json(std::shared_ptr<const Node> node, std::string path)
    : node_(std::move(node)), path_(std::move(path)) {}

Result<Json> Json::parse(std::string_view text) {
    // The library would treat a zero byte as the end of the text.
    if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
        return fail(Code::corrupt, cat("not valid JSON: ", where(text, zero + 1), ": a zero byte"));
    }
    Builder builder;
    size_t taken = 0;
    bool ok = false;
    try {
        const char* end = text.data() + text.size();
        ok = nlohmann::json::sax_parse(CountingIterator(text.data(), &taken),
                                       CountingIterator(end, &taken), &builder);
    } catch (const std::exception& error) {
        builder.problem = printable(error.what());
    }
    if (!ok) {
        const size_t position = builder.position == std::string::npos ? taken : builder.position;
        return fail(Code::corrupt,
                    cat("not valid JSON: ", where(text, position), ": ", builder.problem));
    }
    return Json(std::make_shared<const Node>(std::move(builder.root)), "");
}

bool Json::is_null() const {
    return node_ == nullptr || std::holds_alternative<std::nullptr_t>(node_->value);
}

bool Json::is_object() const {
    return node_ != nullptr && node_->object() != nullptr;
}

bool Json::is_array() const {
    return node_ != nullptr && node_->array() != nullptr;
}

bool Json::is_string() const {
    return node_ != nullptr && std::holds_alternative<std::string>(node_->value);
}

bool Json::is_number() const {
    return node_ != nullptr && (std::holds_alternative<int64_t>(node_->value) ||
                                std::holds_alternative<LargeInteger>(node_->value) ||
                                std::holds_alternative<double>(node_->value));
}

bool Json::is_bool() const {
    return node_ != nullptr && std::holds_alternative<bool>(node_->value);
}

bool Json::has(std::string_view key) const {
    return node_ != nullptr && node_->find(key) != nullptr;
}

std::string Json::member_path(std::string_view key) const {
    return path_.empty() ? printable(key) : cat(path_, ".", printable(key));
}

Json Json::operator[](std::string_view key) const {
    const Node* member = node_ == nullptr ? nullptr : node_->find(key);
    std::shared_ptr<const Node> shared;
    if (member != nullptr) shared = std::shared_ptr<const Node>(node_, member);
    return Json(std::move(shared), member_path(key));
}

Json Json::at(size_t index) const {
    std::shared_ptr<const Node> shared;
    if (is_array() && index < size()) {
        shared = std::shared_ptr<const Node>(node_, &(*node_->array())[index]);
    }
    return Json(std::move(shared), cat(path_, "[", index, "]"));
}

size_t Json::size() const {
    if (is_array()) return node_->array()->size();
    return is_object() ? node_->object()->members.size() : 0;
}

std::vector<std::string> Json::keys() const {
    std::vector<std::string> names;
    if (!is_object()) return names;
    for (const auto& member : node_->object()->members) names.push_back(member.first);
    return names;
}

tl::unexpected<Error> Json::mistyped(std::string_view expected) const {
    const std::string name = path_.empty() ? "the document" : path_;
    if (node_ == nullptr) {
        return fail(Code::corrupt, cat(name, ": missing, expected ", expected));
    }
    std::string found = "null";
    if (const auto* value = std::get_if<bool>(&node_->value)) found = *value ? "true" : "false";
    if (const auto* value = std::get_if<int64_t>(&node_->value)) found = cat(*value);
    if (const auto* value = std::get_if<LargeInteger>(&node_->value)) {
        const bool whole = value->digits.size() <= found_bytes_max;
        found = cat(value->digits.substr(0, found_bytes_max), whole ? "" : "...");
    }
    if (const auto* value = std::get_if<double>(&node_->value)) {
        found = formatted("{:.17g}", *value);
    }
    if (const auto* value = std::get_if<std::string>(&node_->value)) {
        const bool whole = value->size() <= found_bytes_max;
        found = cat('"', printable(value->substr(0, found_bytes_max)), whole ? "\"" : "...\"");
    }
    if (is_array()) found = cat("an array of ", size());
    if (is_object()) found = "an object";
    return fail(Code::corrupt, cat(name, ": expected ", expected, ", found ", found));
}

Result<int64_t> Json::integer() const {
    if (node_ != nullptr) {
        if (const auto* value = std::get_if<int64_t>(&node_->value)) return *value;
        if (std::holds_alternative<LargeInteger>(node_->value)) {
            return mistyped("an integer of at most 63 bits");
        }
    }
    return mistyped("an integer");
}

Result<double> Json::number() const {
    if (node_ != nullptr) {
        if (const auto* value = std::get_if<double>(&node_->value)) return *value;
        if (const auto* value = std::get_if<int64_t>(&node_->value)) {
            return static_cast<double>(*value);
        }
        if (const auto* value = std::get_if<LargeInteger>(&node_->value)) {
            return value->value;
        }
    }
    return mistyped("a number");
}

std::string Json::whole_number() const {
    if (node_ == nullptr) return {};
    if (const auto* value = std::get_if<int64_t>(&node_->value)) return cat(*value);
    if (const auto* value = std::get_if<LargeInteger>(&node_->value)) return value->digits;
    return {};
}

Result<bool> Json::boolean() const {
    if (!is_bool()) return mistyped("true or false");
    return std::get<bool>(node_->value);
}

Result<std::string> Json::string() const {
    if (!is_string()) return mistyped("a string");
    return std::get<std::string>(node_->value);
}

Result<std::vector<int64_t>> Json::integers() const {
    if (!is_array()) return mistyped("an array of integers");
    std::vector<int64_t> values;
    for (size_t i = 0; i < size(); ++i) {
        const auto value = at(i).integer();
        if (!value) return tl::unexpected<Error>(value.error());
        values.push_back(*value);
    }
    return values;
}

const std::string& Json::path() const {
    return path_;
}

void Json::each_member(
    const std::function<bool(std::string_view key, const Json& value)>& visit) const {
    if (!is_object()) return;
    for (const auto& [key, member] : node_->object()->members) {
        const Json value(std::shared_ptr<const Node>(node_, &member), member_path(key));
        if (!visit(key, value)) return;
    }
}

std::string json_quote(std::string_view text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out = "\"";
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        const auto first = static_cast<uint8_t>(text[0]);
        if (length == 0) {
            out += "\xef\xbf\xbd";
        } else if (first == '"' || first == '\\') {
            out += {'\\', text[0]};
        } else if (first == '\n') {
            out += "\\n";
        } else if (first == '\r') {
            out += "\\r";
        } else if (first == '\t') {
            out += "\\t";
        } else if (first < 0x20) {
            out += {'\\', 'u', '0', '0', digits[first >> 4], digits[first & 15]};
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(std::max<size_t>(length, 1));
    }
    return out + '"';
}

}  // namespace sluice
