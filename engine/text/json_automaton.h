// Follows a text through a JsonGrammar, byte by byte, and knows at each byte what may come next.
//
// A pushdown automaton: a Spot is where it is inside the innermost value, a Frame where it goes on
// when that value ends. Where a grammar has alternatives, several Configs are followed at once, at
// most `configs_max`: of more, the later ones are given up, so that an answer still fits the
// grammar, in one of the ways that are left. From every state some text completes the answer.
//
// One owner. The cost of a byte is that of its configs, usually one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/text/json_grammar.h"
#include "engine/text/json_text.h"

namespace sluice {

namespace json {

enum class Step : uint8_t {
    value,         // before a value; shape: its ValueId
    text,          // in a string
    number,        //
    literal,       // node: of the texts
    object_open,   // after "{"
    object_key,    // node: of the keys
    object_other,  // in a key that is a prefix of no declared one yet; node: of the keys
    object_colon,  // after a key's quote; node: its property
    object_value,  // after ":"
    object_after,  // after a member
    object_comma,  //
    array_open,    //
    array_after,   //
    array_comma,   //
    done,
};

enum class NumberState : uint8_t { minus, zero, integer, point, fraction, e, sign, exponent };

struct Spot {
    uint32_t shape = 0;
    uint32_t node = 0;   // of a trie; the property of a member
    uint32_t count = 0;  // characters, digits, items; the first property that may still come
    uint16_t space = 0;  // 1: a space; 2 + n: a line feed and n spaces
    uint8_t depth = 0;   // open objects and arrays
    Step step = Step::value;
    TextState text = TextState::body;
    NumberState number = NumberState::minus;
    bool operator==(const Spot&) const = default;
};

inline constexpr uint32_t no_frame = ~uint32_t{0};

struct Frame {
    Spot spot;
    uint32_t below;  // index of a frame, or no_frame
    uint64_t hash;   // of this and all below
};

struct Config {
    Spot spot;
    uint32_t below = no_frame;
};
using Configs = std::vector<Config>;

}  // namespace json

class JsonAutomaton {
 public:
    static constexpr size_t configs_max = 256;

    explicit JsonAutomaton(std::shared_ptr<const JsonGrammar> grammar);

    // False, and nothing changes, unless the text may go on with these bytes. The bytes of one call
    // are one token: alternatives that are given up can differ if they come in several calls.
    bool accept(std::string_view bytes);
    bool can_end() const;   // the text is complete
    bool must_end() const;  // and cannot go on
    const JsonGrammar& grammar() const { return *grammar_; }

    // For those who try many continuations. step() adds frames; cut them when the configs that it
    // returned are not used any more.
    const json::Configs& configs() const { return configs_; }
    void step(const json::Configs& from, uint8_t byte, json::Configs& to);
    size_t frames() const { return frames_.size(); }
    void cut_frames(size_t count) { frames_.resize(count); }

    // Behind the closing quote of the string that `config` is in; of an undeclared key.
    json::Config after_string(const json::Config& config) const { return pop(config.below); }
    json::Config after_other_key(json::Config config) const;

 private:
    using Config = json::Config;
    using Configs = json::Configs;
    using Spot = json::Spot;

    void step_one(Config config, uint8_t byte, Configs& to);
    void step_text(Config config, uint8_t byte, Configs& to) const;
    bool step_number(Config config, uint8_t byte, Configs& to) const;
    bool step_literal(Config config, uint8_t byte, Configs& to) const;
    void step_object(Config config, uint8_t byte, Configs& to);
    void step_member(Config config, uint8_t byte, Configs& to);
    void step_key(Config config, uint8_t byte, Configs& to) const;
    void step_other_key(Config config, uint8_t byte, Configs& to);
    void begin_key(Config config, Configs& to);
    void begin_other_key(const Config& config, TextState text, Configs& to);
    void step_array(Config config, uint8_t byte, Configs& to);
    // Begins a value with `byte`, in the container that goes on at `parent` (none: the root).
    void begin(json::ValueId value, uint8_t byte, const Config* parent, Configs& to);
    bool begin_shape(const json::Shape& shape, uint8_t byte, Spot& spot) const;

    bool fits(json::ValueId value, uint8_t depth) const;
    bool key_may_follow(const json::Object& object, const Spot& spot, uint32_t node) const;
    bool others_may_follow(const json::Object& object, const Spot& spot) const;
    const json::ValueId* next_item(const json::Array& array, const Spot& spot) const;

    uint32_t push(const Config& config);
    Config pop(uint32_t frame) const;
    bool is_complete(const Config& config) const;
    bool ends_by_itself(const Spot& spot) const;
    bool same(const Config& a, const Config& b) const;
    uint64_t hash(const Config& config) const;
    void reduce(Configs& configs) const;
    void collect();

    template <class T>
    const T& shape(const Spot& spot) const {
        return *std::get_if<T>(&grammar_->shapes[spot.shape]);
    }

    std::shared_ptr<const JsonGrammar> grammar_;
    json::Configs configs_;
    std::vector<json::Frame> frames_;
    size_t collect_at_;
};

}  // namespace sluice
