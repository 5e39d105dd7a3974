// Kernels that follow each other in the same way for every token, sent as one CUDA graph.
//
// Between begin() and end() kernels are recorded instead of launched, and flush() sends what was
// recorded: it must come before anything else enters the stream. A row of kernels is known by its
// tag and by which kernels it holds, in order; grids and arguments may change from one time to the
// next and are set in the graph where they did. The first time a row is met its graph is made,
// which takes longer than launching its kernels; later it costs one launch, and a call for every
// kernel with a new argument. Graphs live in the driver's memory, outside the arena of the budget.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace sluice::cuda {

class Graphs {
 public:
    Graphs() = default;
    Graphs(const Graphs&) = delete;
    Graphs& operator=(const Graphs&) = delete;
    ~Graphs();

    void begin(int32_t tag) {
        tag_ = tag;
        recording_ = true;
    }
    // After flush().
    void end() { recording_ = false; }
    bool recording() const { return recording_; }
    bool empty() const { return row_.nodes.empty(); }

    template <class... Parameters>
    void add(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared,
             const Parameters&... arguments) {
        Node node{};
        node.kernel = reinterpret_cast<const void*>(kernel);
        node.grid = grid;
        node.threads = threads;
        node.shared = static_cast<unsigned>(shared);
        node.first = row_.places.size();
        (keep(&arguments, sizeof arguments, alignof(Parameters)), ...);
        node.bytes_end = row_.bytes.size();
        row_.nodes.push_back(node);
    }

    // Sends what was recorded, as one launch; nothing if that is nothing. With `overlap` a kernel
    // may start while the one before it drains (cuda::Lane). The first error, if there was one.
    cudaError_t flush(cudaStream_t stream, bool overlap);

 private:
    struct Node {
        const void* kernel;
        dim3 grid;
        unsigned threads, shared;
        size_t first;      // of its arguments in Row::places
        size_t bytes_end;  // of their bytes in Row::bytes
    };
    struct Row {
        std::vector<Node> nodes;
        std::vector<size_t> places;    // of arguments in bytes
        std::vector<std::byte> bytes;  // aligned to 16
        void clear() {
            nodes.clear();
            places.clear();
            bytes.clear();
        }
    };
    struct Graph {
        Row row;
        std::vector<cudaGraphNode_t> nodes;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t ready = nullptr;
    };

    void keep(const void* argument, size_t size, size_t alignment);
    static bool same_kernels(const Row& a, const Row& b);
    static bool same(const Row& a, const Row& b, size_t node);
    std::vector<void*> arguments(size_t node);
    cudaError_t make(Graph& graph, bool overlap);
    cudaError_t set_changed(Graph& graph);

    bool recording_ = false;
    int32_t tag_ = 0;
    Row row_;
    std::map<int32_t, std::vector<Graph>> known_;
};

}  // namespace sluice::cuda
