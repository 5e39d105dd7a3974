// Kernels that follow each other in the same way for every token, sent as one CUDA graph.
//
// Between begin() and end() kernels are recorded instead of launched. flush() sends what was
// recorded and must come before anything else enters the stream. A sequence of kernels is
// identified by its tag and by the kernels it holds, in order. Grids and arguments may change from
// one time to the next; the graph is updated where they did. When a sequence is seen for the first
// time its graph is made, which takes longer than launching its kernels; later it costs one launch,
// and a call for every kernel with a new argument. Graphs live in the driver's memory, outside the
// arena of the budget.
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
    // To be called after flush().
    void end() { recording_ = false; }
    bool recording() const { return recording_; }
    bool empty() const { return recorded_.nodes.empty(); }

    template <class... Parameters>
    void add(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t shared,
             const Parameters&... arguments) {
        Node node{};
        node.kernel = reinterpret_cast<const void*>(kernel);
        node.grid = grid;
        node.threads = threads;
        node.shared = static_cast<unsigned>(shared);
        node.first = recorded_.offsets.size();
        (keep(&arguments, sizeof arguments, alignof(Parameters)), ...);
        node.bytes_end = recorded_.bytes.size();
        recorded_.nodes.push_back(node);
    }

    // Sends what was recorded as one launch; does nothing if nothing was recorded. With `overlap` a
    // kernel may start while the one before it drains (cuda::Lane). Returns the first error.
    cudaError_t flush(cudaStream_t stream, bool overlap);

 private:
    struct Node {
        const void* kernel;
        dim3 grid;
        unsigned threads, shared;
        size_t first;      // of its arguments in Sequence::offsets
        size_t bytes_end;  // of their bytes in Sequence::bytes
    };
    struct Sequence {
        std::vector<Node> nodes;
        std::vector<size_t> offsets;   // of arguments in bytes
        std::vector<std::byte> bytes;  // aligned to 16
        void clear() {
            nodes.clear();
            offsets.clear();
            bytes.clear();
        }
    };
    struct Graph {
        Sequence sequence;
        std::vector<cudaGraphNode_t> nodes;
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t ready = nullptr;
    };

    void keep(const void* argument, size_t size, size_t alignment);
    static bool same_kernels(const Sequence& a, const Sequence& b);
    static bool same(const Sequence& a, const Sequence& b, size_t node);
    std::vector<void*> arguments(size_t node);
    cudaError_t make(Graph& graph, bool overlap);
    cudaError_t set_changed(Graph& graph);

    bool recording_ = false;
    int32_t tag_ = 0;
    Sequence recorded_;
    std::map<int32_t, std::vector<Graph>> known_;
};

}  // namespace sluice::cuda
