// Source of json_automaton.h: what may follow at each place of a JSON text.
#include <algorithm>

#include "engine/text/json_automaton.h"

namespace sluice {

using namespace json;

namespace {

constexpr uint32_t integer_digits_max = 20, fraction_digits_max = 20, exponent_digits_max = 2;
constexpr uint32_t indent_max = 4;  // spaces for each open object and array

bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

// White space of an object or array.
bool take_space(Spot& spot, uint8_t byte) {
    if (spot.space == 0 && (byte == ' ' || byte == '\n')) {
        spot.space = byte == ' ' ? 1 : 2;
        return true;
    }
    if (byte != ' ' || spot.space < 2 || spot.space - 2u >= indent_max * spot.depth) return false;
    ++spot.space;
    return true;
}

Config at(Config config, Step step) {
    config.spot.step = step;
    config.spot.space = 0;
    return config;
}

// Counts on only as far as it matters.
uint32_t counted(uint32_t count, uint32_t enough, uint32_t max) {
    return max == unlimited ? std::min(count + 1, enough) : count + 1;
}

}  // namespace

void JsonAutomaton::begin(ValueId value, uint8_t byte, const Config* parent, Configs& to) {
    Config config;
    config.spot.depth = parent != nullptr ? parent->spot.depth : 0;
    const uint8_t depth = config.spot.depth;
    for (ShapeId id : grammar_->values[value].shapes) {
        Spot& spot = config.spot;
        if (depth + grammar_->heights[id] > nesting_max) continue;
        spot = {};
        spot.shape = id;
        spot.depth = depth;
        if (!begin_shape(grammar_->shapes[id], byte, spot)) continue;
        if (parent != nullptr && config.below == no_frame) config.below = push(*parent);
        const bool whole =
            spot.step == Step::literal && shape<Literals>(spot).texts.is_leaf(spot.node);
        to.push_back(whole ? pop(config.below) : config);
    }
}

bool JsonAutomaton::begin_shape(const Shape& shape, uint8_t byte, Spot& spot) const {
    if (const auto* literals = std::get_if<Literals>(&shape)) {
        spot.step = Step::literal;
        spot.node = literals->texts.next(ByteTrie::root, byte);
        return spot.node != ByteTrie::none;
    }
    if (const auto* number = std::get_if<Number>(&shape)) {
        spot.step = Step::number;
        if (byte == '-') return number->negative;
        spot.number = byte == '0' ? NumberState::zero : NumberState::integer;
        spot.count = byte == '0' ? 0 : 1;
        return byte == '0' ? number->zero_first : is_digit(byte);
    }
    if (std::holds_alternative<String>(shape)) {
        spot.step = Step::text;
        return byte == '"';
    }
    ++spot.depth;
    const bool is_object = std::holds_alternative<Object>(shape);
    spot.step = is_object ? Step::object_open : Step::array_open;
    return byte == (is_object ? '{' : '[');
}

void JsonAutomaton::step_text(Config config, uint8_t byte, Configs& to) const {
    const auto& string = shape<String>(config.spot);
    const TextState then = next(config.spot.text, byte);
    if (then == TextState::dead) return;
    if (then == TextState::closed) {
        if (config.spot.count >= string.min) to.push_back(pop(config.below));
        return;
    }
    if (begins_character(config.spot.text, then)) {
        if (config.spot.count == string.max) return;
        config.spot.count = counted(config.spot.count, string.min, string.max);
    }
    config.spot.text = then;
    to.push_back(config);
}

bool JsonAutomaton::step_number(Config config, uint8_t byte, Configs& to) const {
    using N = NumberState;
    Spot& spot = config.spot;
    const bool whole = shape<Number>(spot).integer;
    const auto go = [&](N state, uint32_t count) {
        spot.number = state;
        spot.count = count;
        to.push_back(config);
        return true;
    };
    const bool digit = is_digit(byte);
    const bool leaves = !whole && (spot.number == N::zero || spot.number == N::integer);
    if (leaves && byte == '.') return go(N::point, 0);
    if ((leaves || spot.number == N::fraction) && (byte | 0x20) == 'e') return go(N::e, 0);
    switch (spot.number) {
        case N::minus:
            if (byte == '0') return go(N::zero, 0);
            return digit && go(N::integer, 1);
        case N::integer:
            return digit && spot.count < integer_digits_max && go(N::integer, spot.count + 1);
        case N::point:
        case N::fraction:
            return digit && spot.count < fraction_digits_max && go(N::fraction, spot.count + 1);
        case N::e:
            if (byte == '+' || byte == '-') return go(N::sign, 0);
            return digit && go(N::exponent, 1);
        case N::sign:
        case N::exponent:
            return digit && spot.count < exponent_digits_max && go(N::exponent, spot.count + 1);
        default:
            return false;
    }
}

bool JsonAutomaton::step_literal(Config config, uint8_t byte, Configs& to) const {
    const ByteTrie& texts = shape<Literals>(config.spot).texts;
    config.spot.node = texts.next(config.spot.node, byte);
    if (config.spot.node == ByteTrie::none) return false;
    to.push_back(texts.is_leaf(config.spot.node) ? pop(config.below) : config);
    return true;
}

bool JsonAutomaton::fits(ValueId value, uint8_t depth) const {
    return depth + grammar_->values[value].height <= nesting_max;
}

// Whether one of the keys at or below `node` may come next.
bool JsonAutomaton::key_may_follow(const Object& object, const Spot& spot, uint32_t node) const {
    const auto& words = object.keys.words(node);
    const uint32_t last = object.next_required[spot.count];
    for (auto i = std::lower_bound(words.begin(), words.end(), spot.count);
         i != words.end() && *i <= last; ++i) {
        if (fits(object.properties[*i].value, spot.depth)) return true;
    }
    return false;
}

bool JsonAutomaton::others_may_follow(const Object& object, const Spot& spot) const {
    return object.others && fits(*object.others, spot.depth) &&
           object.next_required[spot.count] == object.properties.size();
}

void JsonAutomaton::step_object(Config config, uint8_t byte, Configs& to) {
    const auto& object = shape<Object>(config.spot);
    Spot& spot = config.spot;
    const bool may_close = object.next_required[spot.count] == object.properties.size();
    switch (spot.step) {
        case Step::object_open:
        case Step::object_comma:
            if (byte == '"') return begin_key(config, to);
            if (byte == '}' && may_close && spot.step == Step::object_open)
                return to.push_back(pop(config.below));
            if (take_space(spot, byte)) to.push_back(config);
            return;
        case Step::object_after:
            if (byte == ',' && spot.space == 0) {
                if (key_may_follow(object, spot, ByteTrie::root) || others_may_follow(object, spot))
                    to.push_back(at(config, Step::object_comma));
            } else if (may_close) {
                if (byte == '}') return to.push_back(pop(config.below));
                if (take_space(spot, byte)) to.push_back(config);
            }
            return;
        case Step::object_key:
            return step_key(config, byte, to);
        case Step::object_other:
            return step_other_key(config, byte, to);
        default:
            return step_member(config, byte, to);
    }
}

void JsonAutomaton::begin_key(Config config, Configs& to) {
    const auto& object = shape<Object>(config.spot);
    config.spot.node = ByteTrie::root;
    if (key_may_follow(object, config.spot, ByteTrie::root))
        to.push_back(at(config, Step::object_key));
    if (!others_may_follow(object, config.spot)) return;
    if (object.keys.empty()) return begin_other_key(config, TextState::body, to);
    to.push_back(at(config, Step::object_other));
}

Config JsonAutomaton::after_other_key(Config config) const {
    config = at(config, Step::object_colon);
    config.spot.text = TextState::body;
    config.spot.node = ByteTrie::none;
    config.spot.count = static_cast<uint32_t>(shape<Object>(config.spot).properties.size());
    return config;
}

// The rest of a key that is not declared.
void JsonAutomaton::begin_other_key(const Config& config, TextState text, Configs& to) {
    const Config after = after_other_key(config);
    if (text == TextState::closed) return to.push_back(after);
    Config key;
    key.spot.shape = JsonGrammar::any_string;
    key.spot.step = Step::text;
    key.spot.text = text;
    key.spot.depth = config.spot.depth;
    key.below = push(after);
    to.push_back(key);
}

void JsonAutomaton::step_key(Config config, uint8_t byte, Configs& to) const {
    const auto& object = shape<Object>(config.spot);
    const uint32_t node = object.keys.next(config.spot.node, byte);
    if (node == ByteTrie::none || !key_may_follow(object, config.spot, node)) return;
    config.spot.node = node;
    if (object.keys.word(node) != ByteTrie::none) {
        config = at(config, Step::object_colon);
        config.spot.node = object.keys.word(node);
    }
    to.push_back(config);
}

// Without escapes as long as the key begins like a declared one: "\u0061" would be an "a".
void JsonAutomaton::step_other_key(Config config, uint8_t byte, Configs& to) {
    const auto& object = shape<Object>(config.spot);
    const TextState then = next(config.spot.text, byte);
    if (then == TextState::dead || then == TextState::escape) return;
    const uint32_t node = object.keys.next(config.spot.node, byte);
    if (node == ByteTrie::none) return begin_other_key(config, then, to);
    if (object.keys.word(node) != ByteTrie::none) return;
    config.spot.node = node;
    config.spot.text = then;
    to.push_back(config);
}

// Between a key and its value.
void JsonAutomaton::step_member(Config config, uint8_t byte, Configs& to) {
    Spot& spot = config.spot;
    if (spot.step == Step::object_colon) {
        if (byte == ':') to.push_back(at(config, Step::object_value));
        return;
    }
    if (byte == ' ' && spot.space == 0) {
        spot.space = 1;
        return to.push_back(config);
    }
    const auto& object = shape<Object>(spot);
    const bool other = spot.node == ByteTrie::none;
    const ValueId value = other ? *object.others : object.properties[spot.node].value;
    Config parent = at(config, Step::object_after);
    if (!other) parent.spot.count = spot.node + 1;
    parent.spot.node = 0;
    begin(value, byte, &parent, to);
}

const ValueId* JsonAutomaton::next_item(const Array& array, const Spot& spot) const {
    if (spot.count >= array.max) return nullptr;
    const ValueId* item = nullptr;
    if (spot.count < array.first.size()) {
        item = &array.first[spot.count];
    } else if (array.others) {
        item = &*array.others;
    }
    return item != nullptr && fits(*item, spot.depth) ? item : nullptr;
}

void JsonAutomaton::step_array(Config config, uint8_t byte, Configs& to) {
    const auto& array = shape<Array>(config.spot);
    Spot& spot = config.spot;
    const bool may_close = spot.count >= array.min && spot.step != Step::array_comma;
    if (byte == ']') {
        if (may_close) to.push_back(pop(config.below));
        return;
    }
    const ValueId* item = next_item(array, spot);
    if (spot.step == Step::array_after) {
        if (byte == ',') {
            if (spot.space == 0 && item != nullptr) to.push_back(at(config, Step::array_comma));
        } else if (may_close && take_space(spot, byte)) {
            to.push_back(config);
        }
        return;
    }
    if (take_space(spot, byte)) return to.push_back(config);
    if (item == nullptr) return;
    Config parent = at(config, Step::array_after);
    const uint32_t enough = std::max(array.min, static_cast<uint32_t>(array.first.size()));
    parent.spot.count = counted(spot.count, enough, array.max);
    begin(*item, byte, &parent, to);
}

}  // namespace sluice
