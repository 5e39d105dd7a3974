// Source of dialect.h: no API yet.
#include "tools/api/dialect.h"

namespace sluice {

std::span<const ApiRoute> api_routes() {
    return {};
}

}  // namespace sluice
