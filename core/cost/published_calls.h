// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/cost/link_model.h"

namespace piper {

/// One published time of a collective.
struct PublishedCall {
    CallKind kind = CallKind::AllToAll;
    std::string library;  ///< with its version
    std::string device;   ///< as its source prints it
    std::int64_t ranks = 1, nodes = 1;
    CallSize size;
    double sms = 0.0;          ///< multiprocessors the kernel may use, 0 not stated
    bool kernel_only = false;  ///< without the host's part
    Seconds time;
};

/// Published times as curves over size, to predict a call from its nearest ones.
///
/// Every time is divided by modelCall of the same call. A curve interpolates the logarithm of that
/// ratio over log size; curves of the same kind and device (or family) are averaged with the
/// weight 1 / distance^3, where distance counts octaves of ranks, nodes, row size and
/// multiprocessors, and steps for another library or device. The model itself takes part at a
/// distance of three octaves, so that far from every curve it takes over.
class PublishedCurves {
public:
    explicit PublishedCurves(std::span<const PublishedCall> calls);
    /// Those compiled in (core/cost/calls/published_calls.txt).
    [[nodiscard]] static const PublishedCurves& bundled();

    /// Nearest curves of a call; its size does not matter but for row_bytes.
    struct Match {
        struct Neighbour {
            std::size_t curve = 0;
            double distance = 0.0;
        };
        std::array<Neighbour, 6> near{};
        std::size_t count = 0;
        bool same_group = false;  ///< a curve of this device, ranks and nodes
    };
    [[nodiscard]] Match match(const PublishedCall& call) const;
    /// As match, for a place that the caller has worked out.
    [[nodiscard]] Match match(const PublishedCall& call, bool crosses_network) const;

    struct Ratio {
        double value = 1.0;  ///< time over the model's
        bool extrapolated = true;
    };
    [[nodiscard]] Ratio ratio(const Match& match, double bytes) const;

    struct Prediction {
        Seconds time;
        bool extrapolated = true;
    };
    /// On the usual links of the call's device.
    [[nodiscard]] Prediction predict(const PublishedCall& call) const;
    [[nodiscard]] std::size_t size() const { return m_curves.size(); }

private:
    struct Point {
        double log_size = 0.0, log_ratio = 0.0;
    };
    /// What distance is measured along, as logarithms (0: not stated).
    struct Axes {
        double ranks = 0.0, nodes = 0.0, row = 0.0, sms = 0.0;
    };
    [[nodiscard]] static Axes axesOf(const PublishedCall& call);
    struct Curve {
        PublishedCall call;  ///< one of its calls
        std::string mover;   ///< libraryFamily of its library
        LinkFamily family = LinkFamily::Unknown;
        bool network = false;
        std::vector<Point> points;  ///< by size
        Axes axes;
    };
    [[nodiscard]] static double distance(const Curve& curve, const PublishedCall& call,
                                         const Axes& axes, std::string_view mover);
    [[nodiscard]] static std::size_t slot(CallKind kind, LinkFamily family, bool network);

    std::vector<Curve> m_curves;
    std::vector<std::vector<std::size_t>> m_index;  ///< [slot] curves of that kind and family
};

/// "NCCL (folder 2.27.3) nccl-tests" and "NCCL 2.29.7 alltoall_perf" are both "nccl".
[[nodiscard]] std::string libraryFamily(std::string_view library);

/// Lines of published_calls.txt. Errors: InvalidInput with the line.
[[nodiscard]] Result<std::vector<PublishedCall>> readCalls(std::string_view text);
/// The file compiled in.
[[nodiscard]] std::string_view embeddedCalls(std::string_view name);

/// Ends of the range of a published curve's prediction over its value: the residuals of one size
/// in four left out of both published tables, tenth and ninetieth percentile (docs/formulas.md).
inline constexpr double kPublishedLow = 0.88, kPublishedHigh = 1.15;

}  // namespace piper
