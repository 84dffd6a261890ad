// SPDX-License-Identifier: Apache-2.0
// Rows: permute, combine, SwiGLU and cross-entropy against plain loops.
#include <cmath>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/host_data.h"

namespace piper::cuda {
namespace {

template <class T>
constexpr double kRounding = sizeof(T) == 2 ? 1.0 / 128 : 2e-6;

/// Slots in random order, the first `dropped` rows empty.
struct Route {
    Route(std::int64_t slots, std::int64_t dropped)
        : slot_of_row(randomOrder(slots, 5)), row_of_slot(slot_of_row.size(), -1) {
        for (std::size_t row = 0; row < slot_of_row.size(); ++row) {
            if (static_cast<std::int64_t>(row) < dropped) {
                slot_of_row[row] = -1;
            } else {
                row_of_slot[static_cast<std::size_t>(slot_of_row[row])] =
                    static_cast<std::int32_t>(row);
            }
        }
    }
    std::vector<std::int32_t> slot_of_row, row_of_slot;
};

template <class T>
Correctness checkPermute(const Device& device, std::int64_t tokens, std::int64_t topk,
                         std::int64_t hidden) {
    const auto x = randomRows<T>(tokens * hidden, 6);
    const Route route(tokens * topk, 3);
    const DeviceMemory dx(device, x);
    const DeviceMemory dslots(device, route.slot_of_row);
    const DeviceMemory drows(device, randomRows<T>(tokens * topk * hidden, 7));
    device.require(device.api().permuteForward(device.context(), kType<T>, dx.as<>(),
                                               dslots.as<std::int32_t>(), drows.as<>(),
                                               tokens * topk, topk, hidden),
                   "permuteForward");
    const auto rows = drows.read<T>(tokens * topk * hidden);
    Worst worst;
    for (std::int64_t r = 0; r < tokens * topk; ++r) {
        const std::int64_t slot = route.slot_of_row[static_cast<std::size_t>(r)];
        for (std::int64_t c = 0; c < hidden; ++c) {
            worst.add(valueAt(rows, r * hidden + c),
                      slot < 0 ? 0.0 : valueAt(x, slot / topk * hidden + c));
        }
    }
    return {worst.value(), 0.0};
}

template <class T>
Correctness checkCombine(const Device& device, std::int64_t tokens, std::int64_t topk,
                         std::int64_t hidden, bool weighted) {
    const auto rows = randomRows<T>(tokens * topk * hidden, 8);
    const auto before = randomRows<T>(tokens * hidden, 9);
    const auto weights = randomFloats(tokens * topk, 10);
    const Route route(tokens * topk, 3);
    const DeviceMemory drows(device, rows);
    const DeviceMemory dy(device, before);
    const DeviceMemory dweights(device, weights);
    const DeviceMemory dslots(device, route.row_of_slot);
    const PiperCudaCombine combine{kType<T>,
                                   weighted ? 1 : 0,
                                   tokens,
                                   topk,
                                   hidden,
                                   drows.as<>(),
                                   dslots.as<std::int32_t>(),
                                   weighted ? dweights.as<float>() : nullptr,
                                   dy.as<>()};
    device.require(device.api().combineForward(device.context(), &combine), "combineForward");
    const auto y = dy.read<T>(tokens * hidden);
    Worst worst;
    for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t c = 0; c < hidden; ++c) {
            double sum = weighted ? valueAt(before, t * hidden + c) : 0.0;
            for (std::int64_t s = t * topk; s < (t + 1) * topk; ++s) {
                const std::int64_t row = route.row_of_slot[static_cast<std::size_t>(s)];
                if (row < 0) continue;
                sum += (weighted ? valueAt(weights, s) : 1.0) * valueAt(rows, row * hidden + c);
            }
            const double scale = 1.0 + std::abs(sum);
            worst.add(valueAt(y, t * hidden + c) / scale, sum / scale);
        }
    }
    return {worst.value(), kRounding<T>};
}

template <class T>
Correctness checkCombineGrad(const Device& device, std::int64_t tokens, std::int64_t topk,
                             std::int64_t hidden) {
    const auto rows = randomRows<T>(tokens * topk * hidden, 8);
    const auto dy = randomRows<T>(tokens * hidden, 9);
    const auto weights = randomFloats(tokens * topk, 10);
    const Route route(tokens * topk, 3);
    const DeviceMemory device_rows(device, rows);
    const DeviceMemory device_dy(device, dy);
    const DeviceMemory device_weights(device, weights);
    const DeviceMemory device_slots(device, route.row_of_slot);
    const DeviceMemory device_drows(device, rows);
    const DeviceMemory device_dweights(device, weights);
    const PiperCudaCombineGrad combine{kType<T>,
                                       tokens,
                                       topk,
                                       hidden,
                                       device_dy.as<>(),
                                       device_rows.as<>(),
                                       device_slots.as<std::int32_t>(),
                                       device_weights.as<float>(),
                                       device_drows.as<>(),
                                       device_dweights.as<float>()};
    device.require(device.api().combineInputGrad(device.context(), &combine), "combineInputGrad");
    const auto drows = device_drows.read<T>(tokens * topk * hidden);
    const auto dweights = device_dweights.read<float>(tokens * topk);
    Worst worst;
    for (std::int64_t s = 0; s < tokens * topk; ++s) {
        const std::int64_t row = route.row_of_slot[static_cast<std::size_t>(s)];
        double dot = 0;
        for (std::int64_t c = 0; row >= 0 && c < hidden; ++c) {
            const double g = valueAt(dy, s / topk * hidden + c);
            dot += g * valueAt(rows, row * hidden + c);
            worst.add(valueAt(drows, row * hidden + c), valueAt(weights, s) * g);
        }
        worst.add(valueAt(dweights, s) / (1.0 + std::abs(dot)), dot / (1.0 + std::abs(dot)));
    }
    return {worst.value(), sizeof(T) == 2 ? kRounding<T> : 1e-5};
}

template <class T>
Correctness checkSwiglu(const Device& device, std::int64_t rows, std::int64_t ffn) {
    auto input = randomRows<T>(rows * 2 * ffn, 4);
    input[0] = fromFloat<T>(-100.0F);  // exp overflows in f32: silu is 0, not NaN
    const auto dout = randomRows<T>(rows * ffn, 11);
    const DeviceMemory in(device, input);
    const DeviceMemory device_dout(device, dout);
    const DeviceMemory out(device, dout);
    const DeviceMemory gradient(device, input);
    const PiperCudaApi& api = device.api();
    device.require(api.swigluForward(device.context(), kType<T>, in.as<>(), out.as<>(), rows, ffn),
                   "swigluForward");
    device.require(api.swigluInputGrad(device.context(), kType<T>, device_dout.as<>(), in.as<>(),
                                       gradient.as<>(), rows, ffn),
                   "swigluInputGrad");
    const auto result = out.read<T>(rows * ffn);
    const auto slopes = gradient.read<T>(rows * 2 * ffn);
    Worst worst;
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < ffn; ++c) {
            const std::int64_t at = r * 2 * ffn + c;
            const double gate = valueAt(input, at);
            const double up = valueAt(input, at + ffn);
            const double d = valueAt(dout, r * ffn + c);
            const double open = 1.0 / (1.0 + std::exp(-gate));
            worst.add(valueAt(result, r * ffn + c), gate * open * up);
            worst.add(valueAt(slopes, at), d * up * open * (1.0 + gate * (1.0 - open)));
            worst.add(valueAt(slopes, at + ffn), d * gate * open);
        }
    }
    return {worst.value(), kRounding<T>};
}

/// One pass (loss and gradient) or, as with a vocabulary in parts, two.
template <class T>
Correctness checkCrossEntropy(const Device& device, std::int64_t rows, std::int64_t vocab,
                              bool one_pass) {
    const auto logits = randomRows<T>(rows * vocab, 12);
    auto targets = randomExperts(rows, static_cast<int>(vocab), 13);
    targets[0] = -1;
    targets[1] = PIPER_CUDA_ELSEWHERE;
    const DeviceMemory device_logits(device, logits);
    const DeviceMemory device_targets(device, targets);
    const DeviceMemory lse(device, rows * 4);
    const DeviceMemory loss(device, rows * 4);
    const DeviceMemory bad(device, std::vector<std::int32_t>{-1});
    PiperCudaCrossEntropy call{kType<T>,
                               1,
                               one_pass ? 1 : 0,
                               rows,
                               vocab,
                               0.5F,
                               device_logits.as<>(),
                               device_targets.as<std::int32_t>(),
                               lse.as<float>(),
                               loss.as<float>(),
                               bad.as<std::int32_t>()};
    device.require(device.api().crossEntropy(device.context(), &call), "crossEntropy");
    if (!one_pass) {
        call.forward = 0;
        call.gradient = 1;
        device.require(device.api().crossEntropy(device.context(), &call), "crossEntropy");
    }
    const auto gradient = device_logits.read<T>(rows * vocab);
    const auto losses = loss.read<float>(rows);
    Worst worst;
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t target = targets[static_cast<std::size_t>(r)];
        double sum = 0;
        for (std::int64_t c = 0; c < vocab; ++c) sum += std::exp(valueAt(logits, r * vocab + c));
        worst.add(valueAt(losses, r),
                  target < 0 ? 0.0 : std::log(sum) - valueAt(logits, r * vocab + target));
        for (std::int64_t c = 0; c < vocab; ++c) {
            const double probability =
                target == -1 ? 0.0 : std::exp(valueAt(logits, r * vocab + c)) / sum;
            worst.add(valueAt(gradient, r * vocab + c),
                      0.5 * (probability - (c == target ? 1.0 : 0.0)));
        }
    }
    if (bad.read<std::int32_t>(1)[0] != -1) worst.add(1.0, 0.0);
    return {worst.value(), sizeof(T) == 2 ? 1.0 / 256 : 2e-5};
}

template <class T>
void addTyped(std::vector<CorrectnessCase>& cases, const std::string& type) {
    for (const std::int64_t hidden : {256, 101, 2048}) {
        const std::string name = type + " 50 tokens top-3 hidden " + std::to_string(hidden);
        cases.push_back({"permute " + name, [hidden](const Device& device) {
                             return checkPermute<T>(device, 50, 3, hidden);
                         }});
        cases.push_back({"combine " + name, [hidden](const Device& device) {
                             return checkCombine<T>(device, 50, 3, hidden, true);
                         }});
        cases.push_back({"permute gradient " + name, [hidden](const Device& device) {
                             return checkCombine<T>(device, 50, 3, hidden, false);
                         }});
        cases.push_back({"combine gradient " + name, [hidden](const Device& device) {
                             return checkCombineGrad<T>(device, 50, 3, hidden);
                         }});
    }
    for (const auto& [rows, ffn] : {std::pair{64, 1408}, std::pair{33, 101}, std::pair{1, 1}}) {
        cases.push_back({"swiglu " + type + " " + std::to_string(rows) + "x" + std::to_string(ffn),
                         [rows = rows, ffn = ffn](const Device& device) {
                             return checkSwiglu<T>(device, rows, ffn);
                         }});
    }
    for (const std::int64_t vocab : {32000, 257}) {
        for (const bool one_pass : {true, false}) {
            cases.push_back({"cross-entropy " + type + " vocabulary " + std::to_string(vocab) +
                                 (one_pass ? ", one pass" : ", two passes"),
                             [vocab, one_pass](const Device& device) {
                                 return checkCrossEntropy<T>(device, 17, vocab, one_pass);
                             }});
        }
    }
}

}  // namespace

void addRowCases(std::vector<CorrectnessCase>& cases) {
    addTyped<float>(cases, "f32");
    addTyped<Bf16>(cases, "bf16");
}

}  // namespace piper::cuda
