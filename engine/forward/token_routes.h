// The experts of layers that route by token id (ModelConfig::token_routed_layers): known from the
// ids alone, before anything is computed. Reads of them are no guesses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/weights.h"

namespace sluice {

class TokenRoutes {
 public:
    // `ids` of one pass; what the references name outlives this.
    TokenRoutes(const ModelConfig& config, const Weights& weights, std::span<const int32_t> ids)
        : config_(&config), weights_(&weights), ids_(ids) {}

    // The same model, other tokens.
    TokenRoutes of(std::span<const int32_t> ids) const { return {*config_, *weights_, ids}; }

    bool known(int32_t layer) const { return layer < config_->token_routed_layers; }
    // Requires known(layer):
    std::vector<int32_t> routes(int32_t layer) const;    // [n][k], in the order of the table
    std::vector<int32_t> distinct(int32_t layer) const;  // ascending

 private:
    const ModelConfig* config_;
    const Weights* weights_;
    std::span<const int32_t> ids_;
};

}  // namespace sluice
