// Collects the TensorSpecs of a model: a description walks its weights in a fixed order and names,
// for each one, the tensor that fills it. TensorWalk keeps what tensors share: the prefix of their
// names, their class and home, and the tile of FP8 scales.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model.h"
#include "io/text.h"

namespace sluice {

class TensorWalk {
 public:
    // `tile`: Arithmetic::weight_tile.
    TensorWalk(std::vector<TensorSpec>& specs, int32_t tile) : specs_(specs), tile_(tile) {}

    TensorWalk& in(std::string prefix) {
        prefix_ = std::move(prefix);
        return *this;
    }
    TensorWalk& of(const char* what, Home home = Home::dense) {
        what_ = what;
        home_ = home;
        return *this;
    }

    void vector(std::string_view name, const bf16*& data, int32_t size) {
        add(name, Storage::bf16, {static_cast<uint64_t>(size)}, &data);
    }
    void vector(std::string_view name, const float*& data, int32_t size) {
        add(name, Storage::f32, {static_cast<uint64_t>(size)}, &data);
    }
    void matrix(std::string_view name, const bf16*& data, int32_t rows, int32_t cols) {
        add(name, Storage::bf16, shape(rows, cols), &data);
    }
    void matrix(std::string_view name, const float*& data, int32_t rows, int32_t cols) {
        add(name, Storage::f32, shape(rows, cols), &data);
    }
    void matrix(std::string_view name, const int64_t*& data, int32_t rows, int32_t cols) {
        add(name, Storage::i64, shape(rows, cols), &data);
    }
    void matrix(std::string_view name, Bf16Matrix& m, int32_t rows, int32_t cols) {
        m.rows = rows, m.cols = cols;
        add(name, Storage::bf16, shape(rows, cols), &m.data);
    }
    void matrix(std::string_view name, F32Matrix& m, int32_t rows, int32_t cols) {
        m.rows = rows, m.cols = cols;
        add(name, Storage::f32, shape(rows, cols), &m.data);
    }
    // NAME.weight and NAME.scale.
    void matrix(const std::string& name, Fp8Matrix& m, int32_t rows, int32_t cols) {
        m.rows = rows, m.cols = cols;
        add(name + ".weight", Storage::fp8, shape(rows, cols), &m.codes);
        const auto tiles = [&](int32_t size) {
            return static_cast<uint64_t>((size + tile_ - 1) / tile_);
        };
        add(name + ".scale", Storage::e8m0, {tiles(rows), tiles(cols)}, &m.scales);
        if (tile_ == 32) return;
        specs_.back().repeat = static_cast<uint64_t>(tile_) / 32;
        specs_.back().resident = {ceil_32(rows), ceil_32(cols)};
    }
    void add(std::string_view name, Storage storage, std::vector<uint64_t> shape,
             decltype(TensorSpec::address) address) {
        TensorSpec spec{prefix_ + std::string(name), storage, std::move(shape), what_, home_,
                        address};
        specs_.push_back(std::move(spec));
    }
    // The spec added last.
    TensorSpec& last() { return specs_.back(); }

 private:
    static std::vector<uint64_t> shape(int32_t rows, int32_t cols) {
        return {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)};
    }
    static uint64_t ceil_32(int32_t size) { return static_cast<uint64_t>((size + 31) / 32); }

    std::vector<TensorSpec>& specs_;
    int32_t tile_;
    std::string prefix_;
    const char* what_ = "";
    Home home_ = Home::dense;
};

}  // namespace sluice
