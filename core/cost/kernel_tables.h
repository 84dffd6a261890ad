// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/cost/kernel_model.h"
#include "core/cost/ratio_field.h"

namespace piper {

/// One published time.
struct KernelRow {
    KernelShape shape;
    double seconds = 0.0;
};

/// What the rows of one table have in common.
struct KernelTableKey {
    KernelKind kind = KernelKind::Gemm;
    KernelLibrary library = KernelLibrary::TrtLlm;
    Precision precision = Precision::Bf16;
    std::string device;      ///< as its source names it
    double peak = 0.0;       ///< FLOP/s of that device at that precision
    double bandwidth = 0.0;  ///< bytes per second
    auto operator<=>(const KernelTableKey&) const = default;
};

/// A time with the spread that leaving rows out of their table shows around it.
struct KernelTime {
    double seconds = 0.0;
    double spread = 0.0;   ///< log2, one standard deviation
    bool outside = false;  ///< the shape lies outside the published ones
};

/// Published times of one device and library as ratios to the simple model of its kernels.
class KernelTable {
public:
    /// measure_spread: fills the ranges, by leaving every row out once.
    KernelTable(KernelTableKey key, std::vector<KernelRow> rows, bool measure_spread);

    [[nodiscard]] const KernelTableKey& key() const { return m_key; }
    [[nodiscard]] Die die() const { return m_die; }
    [[nodiscard]] const std::vector<KernelRow>& rows() const { return m_rows; }
    /// The table's own device and library; another device of the same die changes its numbers.
    [[nodiscard]] const KernelSite& site() const { return m_site; }
    [[nodiscard]] KernelTime time(const KernelShape& shape, const KernelSite& site) const;

private:
    KernelTableKey m_key;
    Die m_die = Die::Unknown;
    std::vector<KernelRow> m_rows;
    KernelSite m_site;
    RatioField m_field;
};

/// The model's numbers of a table's own device.
[[nodiscard]] KernelSite siteOf(const KernelTableKey& key);

/// Reads one of the compiled-in tables (core/cost/data/*.txt).
/// Errors: InvalidInput with the line's number.
[[nodiscard]] Result<KernelTable> readKernelTable(std::string_view text, std::string_view where);

inline constexpr std::array<std::string_view, 12> kKernelTableNames = {"h100_gemm",
                                                                       "a100_gemm",
                                                                       "b200_gemm",
                                                                       "a100_pcie_gemm",
                                                                       "b200_grouped",
                                                                       "a100_pcie_grouped",
                                                                       "b200_attention",
                                                                       "a100_pcie_attention",
                                                                       "h800_gemm_fp8",
                                                                       "h800_grouped_fp8",
                                                                       "h100_fused_moe_trtllm",
                                                                       "h100_fused_moe_vllm"};
/// By index into kKernelTableNames; read on first use.
[[nodiscard]] const KernelTable& publishedTable(std::size_t index);
[[nodiscard]] std::string_view embeddedKernelTable(std::string_view name);
/// The key line of a compiled-in table, without reading its rows.
[[nodiscard]] const KernelTableKey& publishedKey(std::string_view name);

/// The table of that kind, library and precision on the device itself, else on its die; nullptr
/// without one.
[[nodiscard]] const KernelTable* findPublishedTable(KernelKind kind, KernelLibrary library,
                                                    Precision precision,
                                                    std::string_view device_name);
/// Whether the device's name says the table's device.
[[nodiscard]] bool sameDevice(std::string_view table_device, std::string_view device_name);

}  // namespace piper
