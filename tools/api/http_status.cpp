// Source of dialect.h.
#include "tools/api/dialect.h"

namespace sluice {

int http_status(Code code) {
    switch (code) {
        case Code::usage:
        case Code::unsupported:
            return 400;
        case Code::interrupted:
            return 499;
        case Code::no_memory:
            return 503;
        default:
            return 500;
    }
}

}  // namespace sluice
