// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/check/grouped_data.h"

namespace piper::cuda {
namespace {

struct GroupedShape {
    const char* name;
    std::vector<std::int64_t> rows;
    std::int64_t in, out;
};

const std::vector<GroupedShape>& shapes() {
    static const std::vector<GroupedShape> all = {
        {"8x4", std::vector<std::int64_t>(8, 4), 256, 384},
        {"skewed, empty groups", {0, 17, 0, 0, 1, 333, 0, 129, 0}, 328, 200},
        {"64 rows", std::vector<std::int64_t>(5, 64), 512, 256},
        {"one of 1000", {1000}, 136, 264},
        {"nothing routed", {0, 0, 0}, 64, 64},
        {"257 groups", std::vector<std::int64_t>(257, 3), 64, 72},
    };
    return all;
}

Correctness checkGrouped(const Device& device, const GroupedShape& shape, int kind, int path) {
    const auto paths = pathsOf(device);
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) return {0, 0, true};
    const GroupedData data(device, kind, shape.rows, shape.in, shape.out);
    data.poison();
    const PiperCudaGrouped product = data.product(path);
    device.require(device.api().groupedGemm(device.context(), &product), "groupedGemm");
    return data.compare(20000);
}

}  // namespace

void addGroupedCases(std::vector<CorrectnessCase>& cases, int path) {
    for (const int kind : {PIPER_CUDA_FORWARD, PIPER_CUDA_INPUT_GRAD, PIPER_CUDA_WEIGHT_GRAD}) {
        for (const GroupedShape& shape : shapes()) {
            cases.push_back({"grouped " + pathName(path) + " " + kindName(kind) + ", " + shape.name,
                             [&shape, kind, path](const Device& device) {
                                 return checkGrouped(device, shape, kind, path);
                             },
                             path == PIPER_CUDA_HOPPER});
        }
    }
}

}  // namespace piper::cuda
