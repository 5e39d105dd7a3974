// What the endpoints know of the loaded model. Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/answer/model_run.h"
#include "tools/answer/request.h"

namespace sluice {

struct ServedModel {
    const ModelRun* run;
    AnswerRequest defaults;        // what a request leaves open
    std::optional<uint64_t> seed;  // empty: each request gets one of its own
    std::string name;              // as clients see it
    int64_t created = 0;           // seconds since 1970
};

}  // namespace sluice
